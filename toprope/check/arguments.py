"""What the host passes against what the kernel takes it for: element types and sizes of the GM arguments."""

from __future__ import annotations

import re

from toprope import dtypes
from toprope.finding import Finding, Place, codes
from toprope.trace import Trace, ViewRow
from toprope.vendor_paths import INCLUDE

_BYTES_BY_NAME = re.compile(r"workspace|tiling|sync|^usr", re.I)  # memory for several purposes


def argument_types(trace: Trace) -> list[Finding]:
    """Arguments whose elements are of another type than every GlobalTensor that the kernel lays over them."""
    found = []
    for number, row in enumerate(trace.gm):
        views = [v for v in trace.views if v.gm == number and v.dtype and _by_user(trace, v)]
        if not row.dtype or not views or _BYTES_BY_NAME.search(row.name):
            continue
        given = dtypes.dtype(row.dtype)
        if any(dtypes.carries(given, dtypes.dtype(v.dtype)) for v in views):
            continue
        wanted = dtypes.dtype(views[0].dtype)
        code = codes()["argument-type-mismatch"]
        count = row.bytes * 8 // given.bits
        message = f"{row.name} is an array of {given.name} ({count:,} elements, {row.bytes:,} bytes), and the kernel takes its bytes for {wanted.cpp}"
        cure = f"pass {row.name} as {wanted.name}, or use GlobalTensor<{given.cpp}>"
        found.append(Finding(code.name, code.severity, message, (_place(trace, views[0], wanted.cpp),), cure))
    return found


def claims(trace: Trace) -> list[Finding]:
    """GlobalTensors that say to be larger than the argument they lie on."""
    found = []
    for view in trace.views:
        row = trace.gm[view.gm]
        if view.end <= row.bytes or not _by_user(trace, view):
            continue
        code = codes()["global-size-too-large"]
        message = f"SetGlobalBuffer claims {row.name}[{view.begin}:{view.end}] (bytes), and {row.name} has {row.bytes:,} bytes"
        found.append(Finding(code.name, code.severity, message, (_place(trace, view, view.dtype),), code.cure))
    return found


def _by_user(trace: Trace, view: ViewRow) -> bool:
    return not trace.sites[view.site].file.startswith(str(INCLUDE))


def _place(trace: Trace, view: ViewRow, element: str) -> Place:
    site = trace.sites[view.site]
    return Place(site.file, site.line, "SetGlobalBuffer", "", f"elements of {element}")

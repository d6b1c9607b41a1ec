"""Parameter lists of aclnn functions from their headers: names, kinds, order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from toprope.cpp import read, strip_comments


@dataclass(frozen=True)
class AclnnParameter:
    """One parameter of aclnnXxxGetWorkspaceSize: its name and kind (tensor, tensors, scalar, value or output)."""

    name: str
    kind: str


def read_aclnn(folder: Path) -> dict[str, tuple[AclnnParameter, ...]]:
    """Parameter lists of every aclnn function declared in headers below `folder`, workspace and executor left out."""
    found: dict[str, tuple[AclnnParameter, ...]] = {}
    for header in sorted(folder.rglob("aclnn*.h")):
        for call in read(strip_comments(header.read_text(errors="replace"))).calls(r"aclnn\w+GetWorkspaceSize"):
            parameters = [_aclnn_parameter(p) for p in call.arguments]
            name = call.name.removesuffix("GetWorkspaceSize")
            found[name] = tuple(p for p in parameters if p.name not in ("workspaceSize", "executor"))
    return found


def _aclnn_parameter(text: str) -> AclnnParameter:
    name = re.split(r"[\s*&]+", text)[-1]
    if "aclTensorList" in text:
        kind = "tensors"
    elif "aclTensor" in text:
        # In-place operators name the tensor they overwrite ...Ref, and it is an input all the same.
        kind = "tensor" if "const" in text or name.endswith("Ref") else "output"
    elif "aclScalar" in text:
        kind = "scalar"
    else:
        kind = "value"
    return AclnnParameter(name, kind)

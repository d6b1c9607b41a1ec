"""Unit tests of an operator's host code (tiling, shape and type inference), run unchanged against the host API headers.

A test's own harness, the context fakers and case executors that a repository keeps in tests/ut/common, is compiled as it is: the
builders that it derives from are in ascendc/host/unit_test.
"""

from __future__ import annotations

import contextlib
import ctypes as c
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toprope.compat.unit_tests import OTHER_CHIP, TEST_LIMIT_S, TestResult, in_child
from toprope.errors import TopropeError
from toprope.project.checkout import Checkout
from toprope.project.host import chip_numbers
from toprope.project.host_build import HOST, compiled, host_library, host_sources, shared_sources
from toprope.project.operators import Operator
from toprope.soc import Soc

_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
_HARNESS = ("tests/ut/common", "tests/ut/framework_normal/common")
# How a test says that it is about the generation after the one that kernels run on here.
_OTHER_CHIP = re.compile(r"Ascend950|\"3510\"")
_FAMILIES = ("ascend910_93", "ascend910b", "ascend310p", "ascend310b", "ascend910")


def host_test_sources(operator: Operator) -> list[Path]:
    """The C++ files of tests/ut/op_host that hold tests, those of op_api and of other chips left out."""
    folder = operator.folder / "tests" / "ut" / "op_host"
    found = sorted(folder.rglob("*.cpp")) if folder.is_dir() else []
    return [
        f
        for f in found
        if not OTHER_CHIP.search(f.relative_to(folder).as_posix())
        and "op_api" not in f.relative_to(folder).parts
        and "TEST" in f.read_text(errors="replace")
    ]


def run_host_tests(checkout: Checkout, operator: Operator, soc: Soc) -> list[TestResult]:
    """Build and run every host unit test of an operator; a source that does not build is one "not-built" row. Empty if it has none."""
    tests = host_test_sources(operator)
    if not tests:
        return []
    sources, left_out = _usable_sources(checkout, operator, any(_OTHER_CHIP.search(checkout.text(t)) for t in tests))
    family = next((f for f in _FAMILIES if soc.name.startswith(f)), soc.name)
    flags = (f"-DBUILD_SOC_VERSION={family}", "-idirafter", str(HOST / "fallback"))
    results: list[TestResult] = []
    for test in tests:
        try:
            library = host_library(
                checkout, operator, [*sources, *harness_sources(checkout, operator, test), test], flags
            )
        except TopropeError as error:
            results.append(TestResult(test.stem, "not-built", _first_error(error)))
            continue
        # A test that needs a source which does not compile finds no function registered and dies of it, or gets another's answer.
        results += [
            TestResult(r.name, "not-built", left_out) if left_out and r.verdict in ("crashed", "failed") else r
            for r in _run(library, test, soc)
        ]
    return results


def _usable_sources(checkout: Checkout, operator: Operator, every_generation: bool) -> tuple[list[Path], str]:
    """The operator's host sources that compile, and the first problem of the others.

    every_generation: with what there is for other chips, as far as it compiles; tests choose a chip as they run.
    """
    sources = host_sources(operator.folder)
    sources += shared_sources(checkout, operator, sources)
    usable, problem = [], ""
    for source in sources:
        try:
            compiled(checkout, operator, source)
            usable.append(source)
        except TopropeError as error:
            problem = problem or _first_error(error)
    if every_generation:
        own = host_sources(operator.folder, every_generation=True)
        for source in [*own, *shared_sources(checkout, operator, own, every_generation=True)]:
            if source not in sources:
                with contextlib.suppress(TopropeError):
                    compiled(checkout, operator, source)
                    usable.append(source)
    return usable, problem


def harness_sources(checkout: Checkout, operator: Operator, test: Path) -> list[Path]:
    """The sources beside the headers that a test includes from its repository's common test folder, and those that they need."""
    found: dict[Path, None] = {}
    queue = [test]
    while queue:
        file = queue.pop()
        for name in _INCLUDE.findall(checkout.text(file)):
            for base in (operator.folder, *operator.folder.parents):
                header = next((h for folder in _HARNESS if (h := base / folder / name).is_file()), None)
                if header is not None and header not in found:
                    found[header] = None
                    queue += [f for f in (header, header.with_suffix(".cpp")) if f.is_file()]
                if header is not None or base == checkout.root:
                    break
    return [s for h in found if (s := h.with_suffix(".cpp")).is_file()]


def _run(library: Path, source: Path, soc: Soc) -> list[TestResult]:
    with tempfile.TemporaryDirectory(prefix="toprope-ut-") as folder:
        here = Path(folder)
        listed = in_child(lambda: _names(library), here, TEST_LIMIT_S)
        if not isinstance(listed, list):
            return [TestResult(source.stem, "crashed", "while loading the test")]
        out = []
        for number, name in enumerate(listed):
            result = in_child(lambda n=number: _run_one(library, n, soc), here, TEST_LIMIT_S)
            if isinstance(result, list):
                out.append(TestResult(name, *result))
            else:
                out.append(TestResult(name, "time-limit" if result == "time" else "crashed", str(result)))
    return out


def _names(library: Path) -> list[str]:
    loaded = c.CDLL(str(library))
    loaded.toprope_test_name.restype = c.c_char_p
    return [loaded.toprope_test_name(i).decode() for i in range(loaded.toprope_test_count())]


def _run_one(library: Path, number: int, soc: Soc) -> Sequence[Any]:
    loaded = c.CDLL(str(library))
    loaded.toprope_test_message.restype = c.c_char_p
    loaded.toprope_host_set_chip(c.byref(chip_numbers(soc)))
    code = loaded.toprope_test_run(number)
    message = loaded.toprope_test_message().decode(errors="replace") if code == 1 else ""
    return ({0: "passed", 1: "failed", 2: "skipped"}[code], message[:400])


def _first_error(error: TopropeError) -> str:
    """The line of a compiler's output that says what is wrong; for other errors their message."""
    lines = error.message.splitlines()
    return (lines[1] if len(lines) > 1 and "does not compile" in lines[0] else lines[0])[:400]

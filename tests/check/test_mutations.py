"""Faults put into clean kernels are seen: by a finding or by a wrong result."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.check.mutations import Verdict, judge
from tests.check.pages import FOLDER, PREAMBLE, Case, cases
from toprope.kernel import load
from toprope.launch import arguments, read

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
SHARE = 0.95

# Mutants that behave like the original, and why.
EQUIVALENT: dict[tuple[str, str], str] = {}


def report(verdicts: list[Verdict], capsys: pytest.CaptureFixture[str]) -> None:
    """Print the share and fail if it is too small."""
    counted = [v for v in verdicts if (v.kernel, v.mutant.change) not in EQUIVALENT]
    seen = [v for v in counted if v.shown_by]
    by_result = sum(v.shown_by == "wrong result" for v in seen)
    missed = [str(v) for v in counted if not v.shown_by]
    with capsys.disabled():
        print(
            f"\n{len(seen)} of {len(counted)} mutants seen ({by_result} only by the result), {len(verdicts) - len(counted)} equivalent"
        )
        print("\n".join(missed))
    assert len(seen) >= SHARE * len(counted), "\n".join(missed)


def of_case(case: Case) -> list[Verdict]:
    shared = case.source[: case.source.index("// run[")] if not case.own else PREAMBLE
    return judge(
        shared,
        case.text,
        case.name,
        case.blocks,
        case.values,
        case.options.get("sync", "auto"),
        case.options.get("soc", "ascend910b1"),
    )


def of_example(path: Path) -> list[Verdict]:
    verdicts = []
    text, shared = path.read_text(), ""
    for name in re.findall(r'^#include "(.*)"', text, re.M):
        if (beside := path.parent / name).exists():
            shared += re.sub(r"^#pragma once", "", beside.read_text(), flags=re.M)
            text = text.replace(f'#include "{name}"', "")
    for name, kernel in load(path).kernels.items():
        launch = read(path.with_suffix(".toml"), name)

        def values(kernel: Any = kernel, launch: Any = launch) -> list[Any]:
            return [v.copy() if isinstance(v, np.ndarray) else v for v in arguments(kernel, launch).values()]

        verdicts += judge(shared, text, name, launch.blocks, values)
    return verdicts


def clean_cases(*pages: str) -> list[Case]:
    return [
        c
        for page in sorted(FOLDER.glob("*.md"))
        if not pages or page.stem in pages
        for c in cases(page)
        if not c.expected()
    ]


def test_the_add_example(capsys: pytest.CaptureFixture[str]) -> None:
    report(of_example(EXAMPLES / "01_add" / "add_custom.cpp"), capsys)


@pytest.mark.slow
def test_all_examples_and_pages(capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = [v for path in sorted(EXAMPLES.glob("*/*.cpp")) for v in of_example(path)]
    for case in clean_cases():
        verdicts += of_case(case)
    report(verdicts, capsys)

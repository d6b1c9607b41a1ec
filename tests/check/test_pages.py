"""Every page in tests/kernels/: each kernel gives exactly the findings written beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

import toprope
from tests.check.pages import FOLDER, Case, cases, findings, verdict
from toprope.finding import codes

PAGES = sorted(FOLDER.glob("*.md"))
CASES = [case for page in PAGES for case in cases(page)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernel_gives_the_findings_written_beside_it(case: Case) -> None:
    problems = verdict(case, findings(case))
    assert not problems, "\n\n".join(problems)


def test_every_page_has_faulty_kernels_and_clean_twins() -> None:
    for page in PAGES:
        of_page = cases(page)
        if of_page:
            assert any(c.expected() for c in of_page), f"{page.name} has no kernel with a finding"
            assert any(not c.expected() for c in of_page), f"{page.name} has no clean kernel"


def test_every_code_has_a_kernel_that_shows_it() -> None:
    shown = {code for case in CASES for _, code, _ in case.expected()}
    in_tests = "".join(p.read_text() for p in FOLDER.parent.glob("**/test_*.py"))
    package = Path(toprope.__file__).parent
    reporters = [
        *(package / "check").glob("*.py"),
        *(package / "ascendc").rglob("*.h"),
        *(package / "ascendc").rglob("*.cpp"),
    ]
    sources = "".join(p.read_text() for p in reporters)
    missing = [code for code in codes() if f'"{code}"' in sources and code not in shown and f'"{code}"' not in in_tests]
    assert not missing, f"no page in tests/kernels/ and no test shows {missing}"

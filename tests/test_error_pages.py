"""Every code that a user can meet has a row in findings.toml (or an exception class) and a page in docs/errors/."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

import toprope.errors
from toprope.finding import codes

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "errors"
_REPORTED = re.compile(r'(?:\b(?:report|warn|finding)\)?\(|\.add\("code", )"([a-z0-9-]+)"')


@cache
def reported() -> dict[str, str]:
    """Code -> header that reports it."""
    folders = (ROOT / "toprope" / "ascendc", ROOT / "toprope" / "toolkit" / "runtime")
    headers = [p for folder in folders for p in folder.rglob("*") if p.suffix in {".h", ".cpp"}]
    return {code: p.name for p in headers for code in _REPORTED.findall(p.read_text())}


def test_every_code_that_a_header_reports_has_a_row() -> None:
    missing = {code: header for code, header in reported().items() if code not in codes()}
    assert not missing, f"add rows to toprope/findings.toml: {missing}"


def test_every_row_is_used() -> None:
    sources = "".join(p.read_text() for p in (ROOT / "toprope").rglob("*.py"))
    unused = [name for name in codes() if name not in reported() and f'"{name}"' not in sources]
    assert not unused, f"nothing reports {unused}: remove the rows from toprope/findings.toml"


def test_rows_say_rule_and_cure() -> None:
    for code in codes().values():
        assert code.severity in {"error", "warning", "advice"}, code
        assert code.rule.endswith("."), f"{code.name}: the rule is a sentence"
        assert code.cure, f"{code.name} has no cure"


def exception_codes() -> list[str]:
    classes = [
        c for c in vars(toprope.errors).values() if isinstance(c, type) and issubclass(c, toprope.errors.TopropeError)
    ]
    return sorted({c.code for c in classes if c is not toprope.errors.TopropeError})


@pytest.mark.parametrize("code", sorted({*codes(), *exception_codes()}))
def test_every_code_has_a_page(code: str) -> None:
    page = PAGES / f"{code}.md"
    assert page.exists(), f"write docs/errors/{code}.md: what it means, a minimal example, the cure"
    text = page.read_text()
    assert text.startswith(f"# {code}\n")
    assert "## Example" in text and "Cure" in text, f"{page.name} lacks an example or a cure"
    if not code.startswith("advice-"):
        assert "## What it means" in text and "## Cure" in text, f"{page.name} lacks a section"

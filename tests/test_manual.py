"""The manual is whole: what is made from the code is what the code says, every page is reached, every example has its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import make
from tests.test_house import ORDER

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
_CODE = re.compile(r"(?ms)^```.*?^```$|<!--.*?-->|^    [^\n]*$|`[^`\n]*`")
_LINK = re.compile(r"\]\(([^)\s#]+)[^)]*\)")


@pytest.mark.parametrize("path", make.made(), ids=lambda p: p.name)
def test_made_pages_are_what_the_code_says(path: Path) -> None:
    assert path.read_text() == make.made()[path], "run ./dev docs"


def test_a_dependency_without_a_reason_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = [\n  "numpy",\n]\noptional-dependencies = {}\n')
    monkeypatch.setattr(make, "ROOT", tmp_path)
    with pytest.raises(KeyError, match="numpy"):
        make.dependencies()


def test_the_drawing_has_every_layer() -> None:
    assert set(make.ranks()) == set(ORDER)
    drawn = make.architecture()
    assert [unit for unit in ORDER if f">{unit}<" not in drawn] == []


def linked(page: Path) -> set[Path]:
    prose = _CODE.sub("", page.read_text())
    return {(page.parent / target).resolve() for target in _LINK.findall(prose) if "://" not in target}


def test_every_page_is_in_the_index() -> None:
    pages = {p for p in DOCS.rglob("*.md") if p.parent.name not in {"errors", "zh"}} - {DOCS / "index.md"}
    assert pages - linked(DOCS / "index.md") == set()


def test_links_of_the_repository_lead_somewhere() -> None:
    """Pages outside docs/; those inside are checked by the site (./dev docs) and here."""
    pages = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("examples/*/*.md")]
    broken = [f"{p.relative_to(ROOT)}: {t}" for p in pages for t in linked(p) if not t.exists()]
    assert len(pages) > 200 and broken == []


def test_every_example_has_a_page_in_the_course() -> None:
    folders = {p for p in (ROOT / "examples").iterdir() if p.is_dir()}
    assert {f / "README.md" for f in folders} - linked(DOCS / "course.md") == set()
    for folder in folders:
        text = (folder / "README.md").read_text()
        assert "## What to look at\n" in text and "## Exercises\n" in text
    assert sum("## A faulty twin" in (f / "README.md").read_text() for f in folders) >= 8

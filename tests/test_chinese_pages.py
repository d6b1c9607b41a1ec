"""The Chinese pages keep step with the program and with the English pages: verbs, options, tables, links, commands, the walk."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import toprope
from toprope.cli import VERBS, main
from toprope.profile import diagnose

ROOT = Path(__file__).resolve().parents[1]
ZH = ROOT / "docs" / "zh"
README = ROOT / "README.zh.md"
PAGES = [README, *sorted(ZH.glob("*.md"))]
# Chinese page of a verb -> the English page that says the same
COUNTERPART = {
    "run": "launch.md",
    "check": "sanitizer.md",
    "profile": "profiler.md",
    "new": "projects.md",
    "test": "testing.md",
}
WALK = ZH / "first_kernel.md"


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return re.sub(r"(?ms)^```.*?^```$", "", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_is_mentioned(verb: str) -> None:
    assert any(re.search(rf"toprope {verb}(?![\w-])", p.read_text(encoding="utf-8")) for p in PAGES), "docs/zh/index.md"


def options_of(verb: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """What `toprope VERB --help` lists, in all spellings."""
    main([verb, "--help"])
    return set(re.findall(r"(?m)^  (?:-\w, )?(--?\w[\w-]*)", capsys.readouterr().out))


@pytest.mark.parametrize("verb", sorted(COUNTERPART))
def test_a_page_has_the_options_of_its_verb(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    options, page = options_of(verb, capsys), ZH / f"{verb}.md"
    text = prose(page)
    assert len(options) > 4
    missing = sorted(o for o in options if not re.search(rf"(?<![\w-]){re.escape(o)}(?![\w-])", text))
    assert not missing, f"{page.relative_to(ROOT)} does not explain {missing}"
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `-")]
    gone = sorted({o for row in rows for o in re.findall(r"`(--?\w[\w-]*)", row)} - options - {"-h"})
    assert rows and not gone, f"{page.relative_to(ROOT)} explains {gone}, which toprope {verb} does not have"


@pytest.mark.parametrize("verb", sorted(COUNTERPART))
def test_tables_have_the_rows_of_the_english_page(verb: str) -> None:
    """Each name in code or linked page in the first two columns of an English table is in the Chinese page."""
    english, page = ROOT / "docs" / COUNTERPART[verb], ZH / f"{verb}.md"
    # The table of the vendor's kinds is generated, and stays English.
    text = re.sub(r"(?s)<!-- vendor kinds -->.*?<!-- /vendor kinds -->", "", prose(english))
    rows = [re.split(r"(?<!\\)\|", line)[1:3] for line in text.splitlines() if line.startswith("| ")]
    names = {n for row in rows for n in re.findall(r"`([^`]+)`", row[0])}
    names |= {n for row in rows for cell in row for n in re.findall(r"\]\((?:\.\./)*([\w/]*errors/[\w-]+\.md)\)", cell)}
    # docs/projects.md also speaks of host programs, which belong to `toprope run`.
    chinese = page.read_text(encoding="utf-8") + (ZH / "run.md").read_text(encoding="utf-8")
    missing = sorted(n for n in names if n not in chinese)
    assert names and not missing, f"{page.relative_to(ROOT)} lacks {missing} of {english.relative_to(ROOT)}"
    assert f"](zh/{page.name})" in english.read_text(encoding="utf-8") and f"](../{english.name})" in prose(page)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    heads = re.findall(r"(?m)^#+ (.+)$", prose(page))
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)]+)\)", re.sub(r"`[^`\n]*`", "", prose(page)))
    assert links
    for link in links:
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


def test_every_page_is_in_the_index_and_the_readme() -> None:
    for name in (p.name for p in sorted(ZH.glob("*.md")) if p.name != "index.md"):
        assert f"]({name})" in prose(ZH / "index.md") and f"](docs/zh/{name})" in prose(README)


def commands_in(page: Path) -> set[str]:
    """What a reader would type: code spans and lines of code blocks, without comments."""
    text = page.read_text(encoding="utf-8")
    lines = [
        line.split("  #")[0].strip()
        for block in re.findall(r"(?ms)^```\w*\n(.*?)^```$", text)
        for line in block.splitlines()
    ]
    found = {*lines, *re.findall(r"`([^`\n]+)`", prose(page))}
    return {c for c in found if re.match(r"toprope\b|\./dev|pip |g\+\+ |#include|TOPROPE_MARCH", c)}


def test_both_readmes_have_the_same_commands() -> None:
    english = ROOT / "README.md"
    assert "](README.zh.md)" in prose(english) and "](README.md)" in prose(README)
    assert len(commands_in(english)) > 10 and commands_in(english) == commands_in(README)


def edited(source: str, mark: str) -> str:
    """`source` after the changes that the walk shows between its marks, each of which must fit at one place."""
    page = WALK.read_text(encoding="utf-8")
    part = re.search(rf"(?s)<!-- {mark} -->(.*?)<!-- /{mark} -->", page)
    assert part
    for block in re.findall(r"(?ms)^```diff\n(.*?)^```$", part[1]):
        lines = [line + "\n" for line in block.splitlines()]
        before = "".join(line[1:] or "\n" for line in lines if line[0] != "+")
        after = "".join(line[1:] or "\n" for line in lines if line[0] != "-")
        assert source.count(before) == 1, f"docs/zh/first_kernel.md, {mark}:\n{block}"
        source = source.replace(before, after)
    return source


def run_of(folder: Path, source: str) -> toprope.Run:
    kernel = folder / "my_add.cpp"
    kernel.write_text(source, encoding="utf-8")
    x, y = np.random.default_rng(0).random((2, 8, 16384), np.float32).astype(np.float16)
    run = toprope.load(str(kernel)).add_custom[8](x, y, np.empty_like(x), x.size)
    assert np.array_equal(run.outputs["z"], x + y)
    return run


def test_the_walk_finds_what_it_says(tmp_path: Path) -> None:
    good = (ROOT / "examples" / "01_add" / "add_custom.cpp").read_text(encoding="utf-8")
    (finding,) = run_of(tmp_path, edited(good, "racy")).findings
    page = WALK.read_text(encoding="utf-8")
    assert finding.code == "race-unordered-pipes" and f"错误 {finding.code}" in page
    assert all(f"my_add.cpp:{place.line} " in page for place in finding.places)

    slow = edited(good, "slow")
    cures = {"advice-double-buffer", "advice-larger-tiles"}
    assert cures <= {a.code for a in diagnose(run_of(tmp_path, slow))}
    assert not cures & {a.code for a in diagnose(run_of(tmp_path, edited(slow, "fast")))}
    assert all(code in page for code in cures)

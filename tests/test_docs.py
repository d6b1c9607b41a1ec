"""Every code block of docs/ and the READMEs is run, run by a test that is named, or says why it cannot run here.

A block's mark is an HTML comment right above it, which readers do not see:

    <!-- run -->                                  as it stands (Python and shell blocks need no mark for that)
    <!-- run after: x, y = ... -->                after these lines of the same language
    <!-- run without "toprope explore": why -->   without the lines that hold this text
    <!-- run as add.toml: toprope run add.cpp --> the block is this file; then this command succeeds
    <!-- refused with CODE, after: ... -->        the last line, after these ones, ends with this error code
    <!-- tested by tests/check/test_ci_page.py --> that test reads the page
    <!-- not run: why -->                         what it would need

Each block runs in an empty folder that holds a copy of examples/ and the first example as add.cpp with its launch file add.toml.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent
_MARK = re.compile(r"<!--\s*((?:run|refused|tested|not run)\b(?:(?!-->).)*?)\s*-->\s*\Z", re.S)
_SHELL = {"sh", "bash"}
# Whole kinds of blocks that are not run, by folder and language, with the reason.
KINDS = {
    ("docs/errors", "cpp"): "a few lines of a kernel without its declarations",
    (
        "docs/zh",
        "",
    ): "the commands and outputs of the English pages in Chinese; tests/test_chinese_pages.py keeps them in step",
    ("docs/zh", "bash"): "the commands of the English page",
    ("docs/zh", "python"): "the lines of the English page",
    ("docs/zh", "cpp"): "an excerpt of examples/01_add/add_custom.cpp",
    ("docs/zh", "toml"): "an excerpt of a launch file or of a list of accepted findings",
    ("docs/zh", "diff"): "a change, not a program",
}


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, line, language, text and mark ("" if it has none)."""

    page: str
    line: int
    language: str
    text: str
    mark: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("examples/**/*.md"))]


def blocks_of(page: str, text: str) -> list[Block]:
    lines = text.split("\n")
    found = []
    for token in MarkdownIt().parse(text):
        if token.type == "fence" and token.map:
            mark = _MARK.search("\n".join(lines[max(0, token.map[0] - 12) : token.map[0]]))
            found.append(Block(page, token.map[0] + 1, token.info.strip(), token.content, mark[1] if mark else ""))
    return found


def blocks() -> list[Block]:
    return [b for p in pages() for b in blocks_of(p.relative_to(ROOT).as_posix(), p.read_text())]


def verdict(block: Block) -> tuple[str, str]:
    """("run" | "elsewhere" | "not run" | "unmarked", how or why)."""
    if block.mark.startswith("not run:"):
        return "not run", block.mark.partition(":")[2].strip()
    if block.mark.startswith("tested by "):
        return "elsewhere", block.mark.removeprefix("tested by ").strip()
    if block.mark:
        return "run", block.mark
    kind = (str(Path(block.page).parent), block.language)
    if kind in KINDS:
        return "not run", KINDS[kind]
    return ("run", "run") if block.language in {"python", *_SHELL} else ("unmarked", "")


def program(block: Block) -> tuple[str, str, str]:
    """Language, text to run, and the error code that it must end with ("" if it must succeed)."""
    mark, text = block.mark, block.text
    before = re.search(r"after:\s*(.*)", mark, re.S)
    refused = re.match(r"refused with ([a-z-]+)", mark)
    if left_out := re.match(r'run without "([^"]+)": ', mark):
        text = "".join(line for line in text.splitlines(keepends=True) if left_out[1] not in line)
    if as_file := re.match(r"(?:run|refused with [a-z-]+,) as (\S+): (.*)", mark, re.S):
        return "bash", f"cat > {as_file[1]} <<'END'\n{text}END\n{as_file[2]}\n", refused[1] if refused else ""
    if block.language == "console":
        text = "".join(line[2:] + "\n" for line in text.splitlines() if line.startswith("$ "))
        return "bash", text, refused[1] if refused else ""
    start = f"{before[1]}\n" if before else ""
    return block.language or "bash", start + text, refused[1] if refused else ""


RUN = [b for b in blocks() if verdict(b)[0] == "run"]


@pytest.mark.parametrize("block", RUN, ids=str)
def test_block_runs(block: Block, tmp_path: Path) -> None:
    language, text, code = program(block)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for suffix in (".cpp", ".toml"):
        shutil.copy(ROOT / "examples" / "01_add" / f"add_custom{suffix}", tmp_path / f"add{suffix}")
    source = tmp_path / f"block.{'py' if language == 'python' else 'sh'}"
    source.write_text(text)
    command = [sys.executable, str(source)] if language == "python" else ["bash", "-euo", "pipefail", str(source)]
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=300, env={**os.environ, "PATH": tools}
    )
    said = done.stdout[-2000:] + done.stderr[-3000:]
    if code:
        assert done.returncode != 0, f"{block} is not refused\n{said}"
        assert code in said, f"{block} is refused otherwise than with {code}\n{said}"
    else:
        assert done.returncode == 0, f"{block} fails\n{said}"


def test_every_block_is_run_or_says_why() -> None:
    """The count is printed: pytest -s, or on failure."""
    every = blocks()
    counts = Counter(verdict(b)[0] for b in every)
    why = Counter(verdict(b)[1] for b in every if verdict(b)[0] == "not run")
    print("code blocks:", ", ".join(f"{n} {kind}" for kind, n in counts.most_common()))
    for reason, n in why.most_common():
        print(f"  {n} not run: {reason}")
    unmarked = [str(b) for b in every if verdict(b)[0] == "unmarked"]
    assert not unmarked, f"neither run nor marked: {unmarked}"
    assert [str(b) for b in every if verdict(b)[0] == "not run" and len(verdict(b)[1]) < 10] == [], "a reason, please"
    for block in every:
        if verdict(block)[0] == "elsewhere":
            test = ROOT / verdict(block)[1]
            assert test.is_file() and Path(block.page).name in test.read_text(), (
                f"{test.name} does not read {block.page}"
            )


def test_marks_are_read() -> None:
    """Each mark on a small page."""
    page = "<!-- run after: x = 1 -->\n\n```python\nprint(x)\n```\n\n```cpp\nint a;\n```\n\n<!-- not run: needs a card -->\n```bash\nnpu-smi\n```\n"
    one, two, three = blocks_of("docs/x.md", page)
    assert program(one) == ("python", "x = 1\nprint(x)\n", "")
    assert verdict(two) == ("unmarked", "")
    assert verdict(three) == ("not run", "needs a card")
    refused = Block("p", 1, "python", "f()\n", "refused with bad-shape, after: def f(): ...")
    assert program(refused) == ("python", "def f(): ...\nf()\n", "bad-shape")
    without = Block("p", 1, "bash", "a\nb\n", 'run without "b": it asks')
    assert program(without) == ("bash", "a\n", "")
    assert program(Block("p", 1, "console", "$ a b\nsaid\n", "run")) == ("bash", "a b\n", "")
    as_file = Block("p", 1, "toml", "k = 1\n", "run as k.toml: cat k.toml")
    assert program(as_file)[1] == "cat > k.toml <<'END'\nk = 1\nEND\ncat k.toml\n"

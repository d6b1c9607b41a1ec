"""`./dev mutate PATH`: what the tests of a file would not notice if it were wrong.

Changes one place of the file at a time, in a copy of the checkout, and runs its tests; a change that all tests pass is a survivor. The
changes of Python come from cosmic-ray's operators (mutmut, the other tool that is kept, wants a layout of its own and Python alone); numbers
and comparisons of tables and C++ are changed by the few lines below, which no tool offers. Exit code 1 when something survives.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "out" / "mutate"
_NUMBER = re.compile(r"(?<![\w.])(?:0x[0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)(?=[uUlLf]*\b|\W|$)")
_COMPARED = re.compile(r"(?<=\s)(<=|>=|==|!=|<|>)(?=\s)")
_OTHER = {"<=": "<", ">=": ">", "==": "!=", "!=": "==", "<": "<=", ">": ">="}
# Annotations, decorators and operators of types change nothing that runs.
_IDLE = ("RemoveDecorator", "ReplaceBinaryOperator_BitOr")


@dataclass(frozen=True)
class Mutant:
    """One changed text of the file; `line` counts from 1."""

    line: int
    change: str
    text: str


def mutants(name: str, text: str) -> Iterator[Mutant]:
    """Every change of a file that is tried; at each place of Python one operator of a kind."""
    if name.endswith(".py"):
        yield from _python(text)
        return
    lines = text.splitlines(keepends=True)
    code = name.endswith((".h", ".hpp", ".cpp"))
    comment = "//" if code else "#"
    for n, line in enumerate(lines):
        body = line.split(comment)[0]
        if re.match(r"\s*(title|source|kind|name)\s*=", body) or body.startswith(("#", "[")):
            continue
        found = [(m, _changed(m[0])) for m in _NUMBER.finditer(body)]
        found += [(m, _OTHER[m[0]]) for m in _COMPARED.finditer(body) if code or '"' in body]
        for m, new in found:
            if not code and re.search(r'source\s*=\s*"[^"]*$', body[: m.start()]):
                continue  # words about where a number was read
            changed = line[: m.start()] + new + line[m.end() :]
            yield Mutant(n + 1, f"{m[0]} -> {new}", "".join([*lines[:n], changed, *lines[n + 1 :]]))


def _changed(number: str) -> str:
    if number.startswith("0x"):
        return hex(int(number, 16) + 1)
    value = float(number) if re.search(r"[.eE]", number) else int(number)
    return str(value * 2 if value else 1)


def _python(text: str) -> Iterator[Mutant]:
    import cosmic_ray.plugins
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code

    tree, lines = get_ast(text), text.splitlines()
    seen: set[tuple[object, str]] = set()
    for name in cosmic_ray.plugins.operator_names():
        kind = cosmic_ray.plugins.get_operator(name)
        if kind.arguments() or any(word in name for word in _IDLE):
            continue
        places = [p for node in ast_nodes(tree) for p in kind().mutation_positions(node)]
        for occurrence, (start, _) in enumerate(places):
            family = name.split("/")[-1].split("_")[0]
            if (start, family) in seen or lines[start[0] - 1].lstrip().startswith(("from ", "import ")):
                continue
            seen.add((start, family))
            changed = mutate_code(text, kind(), occurrence)
            if changed is not None:
                yield Mutant(start[0], name.split("/")[-1], changed)


def tests_of(path: Path) -> list[str]:
    """The tests that mirror a file of toprope/: tests/UNIT/test_FILE.py and its neighbours, else tests/test_UNIT.py."""
    parts = path.relative_to("toprope").with_suffix("").parts
    folder = Path("tests", *parts[:-1])
    while folder != Path("tests") and not (ROOT / folder).is_dir():
        folder = folder.parent
    if folder != Path("tests"):
        return [folder.as_posix()]
    return [p.relative_to(ROOT).as_posix() for p in (ROOT / "tests").glob(f"test_{parts[-1]}*.py")]


def copy_of_checkout(into: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, into / name)


def passes(folder: Path, tests: list[str], limit_s: float) -> bool:
    """Whether the tests pass in `folder`; a run that does not end counts as a failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *tests]
    here = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=folder, env=here, capture_output=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main(arguments: list[str] | None = None) -> int:
    """Try the changes and write the report."""
    parser = argparse.ArgumentParser(prog="./dev mutate", description=__doc__.split("\n")[0])
    parser.add_argument("path", type=Path, help="a file of toprope/: Python, C++ or a table")
    parser.add_argument("--tests", nargs="+", help="the tests to run (default: those that mirror the file)")
    parser.add_argument("--limit", type=int, default=40, help="how many changes to try, drawn at random (0: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lines", help="only these lines, such as 40-60")
    chosen = parser.parse_args(arguments)
    path = chosen.path.resolve().relative_to(ROOT)
    tests = chosen.tests or tests_of(path)
    text = (ROOT / path).read_text()
    first, _, last = (chosen.lines or "1-1000000").partition("-")
    every = [m for m in mutants(path.name, text) if int(first) <= m.line <= int(last or first)]
    drawn = every
    if 0 < chosen.limit < len(every):
        drawn = sorted(random.Random(chosen.seed).sample(every, chosen.limit), key=lambda m: m.line)
    with tempfile.TemporaryDirectory(prefix="mutate-") as scratch:
        folder = Path(scratch)
        copy_of_checkout(folder)
        begin = time.monotonic()
        if not tests or not passes(folder, tests, 1800):
            print(f"the tests {tests} do not pass as they are; name others with --tests", file=sys.stderr)
            return 2
        limit_s = 10 + 5 * (time.monotonic() - begin)
        survivors = []
        for m in drawn:
            (folder / path).write_text(m.text)
            if survived := passes(folder, tests, limit_s):
                survivors.append(m)
            print(f"{path}:{m.line}: {m.change}: {'SURVIVES' if survived else 'noticed'}", flush=True)
    lines = text.splitlines()
    report = [
        f"# {path}: {len(survivors)} of {len(drawn)} changes survive ({len(every)} possible, seed {chosen.seed})",
        "",
    ]
    report += [f"* line {m.line}, {m.change}: `{lines[m.line - 1].strip()}`" for m in survivors]
    PAGE.mkdir(parents=True, exist_ok=True)
    page = PAGE / f"{'.'.join(path.parts)}.md"
    page.write_text("\n".join(report) + "\n")
    print(f"{report[0][2:]}; report: {page.relative_to(ROOT)}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())

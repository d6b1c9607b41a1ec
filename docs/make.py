"""Pages and pictures of the manual that are made from the code, and the site: `./dev docs` (`--check` only compares what is committed).

dependencies.md    from pyproject.toml: every dependency with the reason that stands beside it
not_modelled.md    from the chip files, the messages of the header library, the pages of the checker and the model, the validation tables
figures/architecture.svg    from the layer list of tests/test_house.py and the imports that are there
"""

from __future__ import annotations

import ast
import html
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
_DEPENDENCY = re.compile(r'^\s*"([\w-]+)([^"]*)",?[ \t]*(?:#[ \t]*(.*))?$', re.M)
_REFUSAL = re.compile(r'"([^"\\]*\b(?:not modelled|not supported|has no|is not carried out)\b[^"\\]*)"')


def dependencies() -> str:
    """A table of every package that pyproject.toml asks for. A package without a reason is an error."""
    text = (ROOT / "pyproject.toml").read_text()
    project = tomllib.loads(text)["project"]
    groups = {"always": project["dependencies"], **project["optional-dependencies"]}
    reasons = {name: why for name, _, why in _DEPENDENCY.findall(text) if why}
    lines = [
        "# What toprope depends on",
        "",
        "Made by `./dev docs` from `pyproject.toml`; do not edit. `pip install toprope` brings the first group, `pip install 'toprope[NAME]'` the",
        "others as well; `dev` is for working on toprope itself. A C++ compiler (g++ 11 or clang 14, or newer) comes from the system or from",
        "`compiler`.",
        "",
        "| group | package | why |",
        "|---|---|---|",
    ]
    for group, wanted in groups.items():
        for requirement in wanted:
            name = re.match(r"[\w-]+", requirement)[0]  # type: ignore[index]
            lines.append(f"| {group} | `{requirement}` | {reasons[name]} |")
    return "\n".join(lines) + "\n"


def section(page: str, heading: str) -> list[str]:
    """The lines below a heading of a page, up to the next one; links stay right for pages of the same folder."""
    match = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", (DOCS / page).read_text(), re.M | re.S)
    if match is None:
        raise ValueError(f"docs/{page} has no section '{heading}'")
    text = match[1].strip()
    return (text if page.count("/") == 0 else text.replace("](../", "](")).split("\n")


def refusals() -> list[tuple[str, str]]:
    """(header, message) of what the header library refuses because it is not modelled."""
    found = []
    for path in sorted((ROOT / "toprope" / "ascendc").rglob("*.h")):
        for message in _REFUSAL.findall(path.read_text()):
            if "not modelled" in message or "not carried out" in message or "not supported" in message:
                found.append((path.relative_to(ROOT / "toprope" / "ascendc").as_posix(), " ".join(message.split())))
    return found


def assumed(chip: Path) -> tuple[int, int, list[str]]:
    """Tables of a chip file that carry a kind, those of them that are assumed, and their names."""
    kinds: dict[str, str] = {}

    def walk(table: dict[str, object], path: str) -> None:
        if isinstance(kind := table.get("kind"), str):
            kinds[path] = kind
        for name, value in table.items():
            if isinstance(value, dict):
                walk(value, f"{path}.{name}" if path else name)

    walk(tomllib.loads(chip.read_text()), "")
    names = [name for name, kind in kinds.items() if kind == "assumed"]
    return len(kinds), len(names), names


def not_modelled() -> str:
    """What neither the run, the checker nor the clock knows, in one page."""
    unrepeated = tomllib.loads((ROOT / "toprope" / "validation" / "not_recreated.toml").read_text())["group"]
    lines = [
        "# What is not modelled, and what the sanitizer cannot see",
        "",
        "Made by `./dev docs`; do not edit. Each part says where its text stands.",
        "",
        "## The sanitizer",
        "",
        "From [the sanitizer](sanitizer.md#what-it-does-not-see).",
        "",
        *section("sanitizer.md", "What it does not see"),
        "",
        "## Time",
        "",
        "From [how time is predicted](design/timing.md#what-it-does-not-do).",
        "",
        *section("design/timing.md", "What it does not do"),
        "",
        "Published device times that nothing here repeats, and why (`toprope/validation/not_recreated.toml`):",
        "",
        "| what | rows | why |",
        "|---|---|---|",
        *(f"| {g['what']} | {g['rows']} | {g['why']} |" for g in unrepeated),
        "",
        "## Functions",
        "",
        "What the header library takes and then refuses by name, at the line that asks for it (the messages of the headers; `toprope api` lists",
        "the functions that are there, and any other name does not compile):",
        "",
        "| header | message |",
        "|---|---|",
        *(
            f"| `{where}` | {html.escape(message)} |".replace("%s", "…").replace("%d", "…")
            for where, message in refusals()
        ),
        "",
        "## Chips",
        "",
        "Tables of each chip file whose numbers are assumed: neither documented, measured nor derived. A file that takes over another one's",
        "tables lists only its own. Reports print the share of a time that rests on assumed numbers.",
        "",
        "| chip | tables with a kind | assumed | which |",
        "|---|---|---|---|",
    ]
    for chip in sorted((ROOT / "toprope" / "soc").glob("*.toml")):
        count, number, names = assumed(chip)
        lines.append(f"| {chip.stem} | {count} | {number} | {', '.join(f'`{n}`' for n in names) or '–'} |")
    return "\n".join(lines) + "\n"


@cache
def ranks() -> dict[str, int]:
    """Unit -> its height: one more than the highest unit that it imports."""
    from tests.layers import sources, unit_of
    from tests.test_house import ORDER, PACKAGE, imported_units

    uses: dict[str, set[str]] = {unit: set() for unit in ORDER}
    for path in sources(PACKAGE, ".py"):
        if path != PACKAGE / "__init__.py":
            uses[unit_of(path)] |= {name for _, name in imported_units(path)} & set(ORDER)
    height: dict[str, int] = {}
    for unit in ORDER:  # imports point down in this list
        height[unit] = 1 + max((height[u] for u in uses[unit] - {unit}), default=-1)
    return height


def told(unit: str) -> str:
    """What a unit is, in the first sentence of its own file."""
    package = ROOT / "toprope" / unit
    for path in (package / "__init__.py", package.with_suffix(".py")):
        if path.exists():
            return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]
    return ""


def architecture() -> str:
    """The layers as a drawing: a box imports only boxes below it; hovering tells what it is."""
    rows: dict[int, list[str]] = {}
    for unit, height in ranks().items():
        rows.setdefault(height, []).append(unit)
    width, box_h, gap = 900, 30, 10
    top = max(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {(top + 1) * (box_h + gap) + 40}" font-family="sans-serif" font-size="13">',
        "<title>The layers of toprope: a unit imports only what lies below it</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        '<text x="10" y="20" fill="#555">commands above, ground below; each box uses only boxes below it</text>',
    ]
    for height, units in rows.items():
        y = 32 + (top - height) * (box_h + gap)
        share = (width - 20 - gap * (len(units) - 1)) / len(units)
        box = min(share, 150.0)
        start = (width - box * len(units) - gap * (len(units) - 1)) / 2
        for i, unit in enumerate(units):
            x = start + i * (box + gap)
            parts.append(
                f'<g><title>{html.escape(told(unit) or unit)}</title><rect x="{x:.0f}" y="{y}" width="{box:.0f}" height="{box_h}" rx="4" '
                f'fill="#eef3fa" stroke="#2b79c9"/><text x="{x + box / 2:.0f}" y="{y + 20}" text-anchor="middle">{unit}</text></g>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


def made() -> dict[Path, str]:
    """Every made file with its text."""
    return {
        DOCS / "dependencies.md": dependencies(),
        DOCS / "not_modelled.md": not_modelled(),
        DOCS / "figures" / "architecture.svg": architecture(),
    }


def main(argv: list[str]) -> int:
    """Write what is made and build the site into out/site; a broken link ends with 1."""
    stale = [p for p, text in made().items() if not p.exists() or p.read_text() != text]
    if "--check" in argv:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not what the code says; run ./dev docs", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.write_text(made()[path])
        print(f"wrote {path.relative_to(ROOT)}")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", str(ROOT / "mkdocs.yml")]
    )
    if built.returncode == 0:
        print(f"wrote {ROOT / 'out' / 'site' / 'index.html'}")
    return built.returncode


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))

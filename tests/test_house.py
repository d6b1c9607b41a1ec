"""The house rules, as tests: layers, public names, pages for error codes, one home for each number."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import toprope
from benchmarks import __main__ as benchmarks

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "toprope"

# A module imports only from names that come earlier in this list (its own package counts as one name).
ORDER = [
    "errors", "dtypes", "finding", "soc", "cache", "vendor_paths", "build", "brackets", "source", "unit", "tiling", "trace", "runtime", "api",
    "order", "timing", "check", "kernel", "launch", "profile", "deps", "tile", "project", "new", "testing", "compat", "report", "explore", "precision", "program", "tune", "validation",
    "ops", "device", "array", "torch", "serve", "train", "plan", "deploy", "commands", "cli",
]  # fmt: skip


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def unit_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_units(path: Path) -> set[str]:
    """Units of toprope that a file imports, also inside functions; TYPE_CHECKING blocks count."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("toprope.")}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            if node.module == "toprope":
                found |= {a.name for a in node.names}
            elif node.module.startswith("toprope."):
                found.add(node.module.split(".")[1])
    return found


def test_every_unit_has_a_layer() -> None:
    assert {unit_of(p) for p in modules()} - {"__init__"} <= set(ORDER)


@pytest.mark.parametrize("path", modules(), ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_imports_point_down(path: Path) -> None:
    unit = unit_of(path)
    if unit == "__init__":
        return
    allowed = set(ORDER[: ORDER.index(unit) + 1])
    # What the public front door re-exports lives in a lower unit.
    assert imported_units(path) <= allowed, f"{path.name} imports upwards: {sorted(imported_units(path) - allowed)}"


def test_public_names_are_the_promised_ones() -> None:
    assert set(toprope.__all__) == {"Kernel", "Run", "load", "load_project"}
    assert all(hasattr(toprope, name) for name in toprope.__all__)


def test_no_vague_module_names() -> None:
    vague = {"utils", "util", "common", "helpers", "helper", "base", "impl", "manager", "misc"}
    assert not [p for p in [*modules(), *PACKAGE.rglob("*.h")] if p.stem in vague]


def test_every_exception_code_has_a_page() -> None:
    text = (PACKAGE / "errors.py").read_text()
    codes = set(re.findall(r'code = "([a-z-]+)"', text)) - {"toprope-error"}
    missing = [c for c in sorted(codes) if not (ROOT / "docs" / "errors" / f"{c}.md").exists()]
    assert not missing, f"no page in docs/errors for {missing}"


def test_every_benchmark_names_its_question(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmarks.main(["--help"]) == 0
    listed = capsys.readouterr().out
    files = [p.stem for p in (ROOT / "benchmarks").glob("*.py") if not p.stem.startswith("_")]
    assert files and all(re.search(rf"^  {name} +\S", listed, re.M) for name in files)
    assert benchmarks.main(["nothing_like_it"]) == 2

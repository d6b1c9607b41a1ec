"""The operator library: one folder per operator, each a complete operator project with a naive and an optimised kernel.

op_host/<name>.cpp     the host side: prototype, shape and type inference, tiling. Two operators, Softmax and SoftmaxNaive
op_kernel/<name>.cpp   the kernels of both; <name>.toml launches them from the command line
golden.py              the reference in NumPy
cases.toml             test cases: `toprope test toprope/ops/<name>`
figures.toml           the shapes, claims and published times of `./dev bench ops`; figures.py adds tables of the operator's own
CMakeLists.txt, ...    the build with a CANN toolkit
host/, rows/           what several operators include
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from toprope.errors import BadArgument
from toprope.kernel import DEFAULT_SOC
from toprope.project.loaded import OperatorRun, ProjectOperator, load_project
from toprope.soc import Soc
from toprope.testing.casefile import read
from toprope.testing.cases import Case

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Table:
    """A table of figures of one operator: a title, columns, rows of cells, a sentence under it, and the figures of that sentence."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    conclusion: str = ""
    figures: dict[str, float] = field(default_factory=dict)


def names() -> list[str]:
    """The operators of the library."""
    return sorted(p.parent.name for p in FOLDER.glob("*/cases.toml"))


def operator(name: str, version: str = "optimised") -> ProjectOperator:
    """An operator of the library to call, in its optimised or another version ("naive"; of matmul each rung of its ladder).

    Raises BadArgument for an unknown one. Its host code compiles on first use.
    """
    found = _project(name).project.operators
    type_of = {t.removeprefix(_type(name)).lower() or "optimised": t for t in found}
    if version not in type_of:
        raise BadArgument(f"{name} has no version {version!r}", cure=f"it has {', '.join(type_of)}")
    return found[type_of[version]]


@cache
def golden(name: str) -> Callable[..., Any]:
    """The reference function of an operator. Raises BadArgument for an unknown one."""
    spec = importlib.util.spec_from_file_location(f"toprope.ops.{name}.golden", _folder(name) / "golden.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., Any] = getattr(module, name)
    return function


@cache
def cases(name: str) -> tuple[Case, ...]:
    """The test cases of an operator, generated ones included. Raises BadArgument for an unknown operator."""
    return tuple(read(_folder(name) / "cases.toml").cases)


def run(
    name: str,
    case: str | int | Case,
    version: str = "optimised",
    soc: str | Soc = DEFAULT_SOC,
    *,
    time_only: bool = False,
) -> OperatorRun:
    """Run one case of an operator, given by its name in cases.toml, its number, or as a Case. Raises BadArgument and what a call raises."""
    if isinstance(case, str):
        found = next((c for c in cases(name) if c.name == case), None)
        if found is None:
            raise BadArgument(
                f"{name} has no case {case!r}", cure=f"it has {', '.join(c.name for c in cases(name)[:20])}"
            )
        case = found
    elif isinstance(case, int):
        case = cases(name)[case]
    return operator(name, version).run(*case.arrays(), soc=soc, options={"time_only": time_only}, **case.attrs)


def ceil_div(value: int, by: int) -> int:
    """value / by rounded up: how many pieces of `by` cover `value`."""
    return (value + by - 1) // by


@cache
def _project(name: str) -> ProjectOperator:
    return load_project(_folder(name), _type(name))


def _folder(name: str) -> Path:
    if name not in names():
        raise BadArgument(f"there is no operator {name!r}", cure=f"there are {', '.join(names())}")
    return FOLDER / name


def _type(name: str) -> str:
    """The operator type of a folder: moe_gating_topk -> MoeGatingTopk."""
    return "".join(word.capitalize() for word in name.split("_"))

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
from types import ModuleType
from typing import Any

import numpy as np

from toprope import dtypes
from toprope import soc as chips
from toprope.errors import BadArgument, BadKernel
from toprope.kernel import DEFAULT_SOC, KernelFile, Run, load
from toprope.project.loaded import OperatorRun, ProjectOperator, load_project
from toprope.testing.casefile import read
from toprope.testing.cases import Case
from toprope.trace import Array

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Plan:
    """What the host side of an operator decides: entry, blocks, kernel arguments in order, the outputs among them, and the build."""

    entry: str
    blocks: int
    arguments: tuple[Any, ...]
    outputs: tuple[Array, ...]
    tiling_key: int = 0
    defines: tuple[str, ...] = ()

    def launch(self, name: str, *, soc: str | chips.Soc = DEFAULT_SOC, time_only: bool = False) -> Run:
        """Run it. Raises what a launch raises."""
        kernel = _kernels(name, self.defines)[self.entry]
        return kernel[self.blocks](*self.arguments, soc=soc, tiling_key=self.tiling_key, time_only=time_only)


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


def host(name: str) -> ModuleType:
    """The module op_host/tiling.py of an operator. Raises BadArgument for an unknown one."""
    return _module(FOLDER / name / "op_host" / "tiling.py", name)


def golden(name: str) -> Callable[..., Any]:
    """The reference function of an operator."""
    function: Callable[..., Any] = getattr(_module(FOLDER / name / "golden.py", name), name)
    return function


@cache
def cases(name: str) -> tuple[Case, ...]:
    """The test cases of an operator, generated ones included. Raises BadArgument for an unknown operator."""
    return tuple(read(_folder(name) / "cases.toml").cases)


def run(
    name: str,
    case: str | int | Case,
    version: str = "optimised",
    soc: str | chips.Soc = DEFAULT_SOC,
    *,
    time_only: bool = False,
) -> OperatorRun | Run:
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
    chip = chips.load(soc) if isinstance(soc, str) else soc
    if is_project(name):
        return operator(name, version).run(*case.arrays(), soc=chip, options={"time_only": time_only}, **case.attrs)
    planned: Plan = host(name).plan(version, chip, *case.arrays(), **case.attrs)
    return planned.launch(name, soc=chip, time_only=time_only)


def is_project(name: str) -> bool:
    """Whether the operator's host side is C++."""
    return (FOLDER / name / "op_host" / f"{name}.cpp").is_file()


def outputs(plan: Callable[..., Plan], name: str, version: str, *inputs: Any, **attributes: Any) -> Any:
    """The outputs of one run, as `toprope test` wants them: one array or a list. A run with an error finding raises BadKernel.

    Outputs start as all bits one, so that an element that is never written does not pass; a launch without elements is left out.
    """
    chip = chips.load(DEFAULT_SOC)
    planned = plan(version, chip, *inputs, **attributes)
    if any(o.size for o in planned.outputs):
        for array in planned.outputs:
            array.view(np.uint8).reshape(-1)[:] = 0xFF
        finished = planned.launch(name, soc=chip)
        wrong = next((f for f in finished.findings if f.severity == "error"), None)
        if wrong is not None:
            raise BadKernel(f"{name}, {version}: {wrong}", cure=wrong.cure)
    return planned.outputs[0] if len(planned.outputs) == 1 else list(planned.outputs)


def ceil_div(value: int, by: int) -> int:
    """value / by rounded up: how many pieces of `by` cover `value`."""
    return (value + by - 1) // by


def c_type(dtype: np.dtype[Any]) -> str:
    """The Ascend C name of an element type, for -DDTYPE_X=..."""
    return dtypes.of_array(np.empty(0, dtype)).cpp


@cache
def _kernels(name: str, defines: tuple[str, ...]) -> KernelFile:
    return load(FOLDER / name / "op_kernel" / f"{name}.cpp", defines=defines)


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


@cache
def _module(path: Path, name: str) -> ModuleType:
    _folder(name)
    spec = importlib.util.spec_from_file_location(f"toprope.ops.{name}.{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

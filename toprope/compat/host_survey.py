"""How far the host code of a whole checkout goes here: which operators' sources compile, and whose tiling accepts plausible shapes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from toprope.errors import TopropeError
from toprope.project.checkout import Checkout
from toprope.project.ge_types import GE_TYPES, GeType
from toprope.project.host import DYNAMIC, OPTIONAL, OperatorDef, TensorDef
from toprope.project.loaded import ProjectOperator, load_project

TIME_LIMIT_S = 240.0
_SHAPES: Sequence[tuple[int, ...]] = ((32, 64), (1024,), (2, 16, 8, 32), (2, 8, 64), (1, 1, 4, 4, 4), (1,))
_FILLERS: dict[str, tuple[Any, ...]] = {
    "int": (1, 0), "float": (1.0,), "bool": (False,), "string": ("", "none"), "list_int": ([1], [1, 1], [1, 1, 1]),
    "list_float": ([1.0],), "list_bool": ([False],), "list_list_int": ([[1]],),
}  # fmt: skip


@dataclass(frozen=True)
class HostRow:
    """One operator: did its host sources compile, did a tiling call succeed, and otherwise the first thing that went wrong."""

    operator: str
    compiled: bool
    tiled: bool
    problem: str = ""


def survey_host(root: Path, chip: str, only: Sequence[str] = ()) -> Iterator[HostRow]:
    """A row for every operator of a checkout that is built for the chip, each tried in a process of its own."""
    checkout = Checkout(root)
    for operator in checkout.operators:
        if (only and operator.name not in only) or not operator.kernels(chip):
            continue
        command = [sys.executable, "-m", "toprope.compat.host_survey", str(operator.folder), chip, operator.label]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_S, errors="replace")
        except subprocess.TimeoutExpired:
            yield HostRow(operator.label, False, False, f"no end within {TIME_LIMIT_S:.0f} s")
            continue
        lines = [line for line in done.stdout.splitlines() if line.startswith('{"operator"')]
        if lines:
            yield HostRow(**json.loads(lines[-1]))
        else:
            yield HostRow(
                operator.label, False, False, f"the process ended with {done.returncode}: {done.stderr[-200:]}"
            )


def try_operator(folder: Path, chip: str, label: str) -> HostRow:
    """Compile an operator's host code and call its tiling with plausible shapes until one is accepted."""
    try:
        found = load_project(folder)
    except TopropeError as error:
        return HostRow(label, False, False, f"{error.code}: {_first_lines(error.message)}")
    problems: Counter[str] = Counter()
    for shapes, types, values, attributes in _attempts(found, chip):
        try:
            outputs = None if found.definition.has_infer_shape else _like_inputs(found, shapes)
            found.tiling(shapes=shapes, dtypes=types, values=values, output_shapes=outputs, soc=chip, **attributes)
        except TopropeError as error:
            problems[f"{error.code}: {_first_lines(error.message)}"] += 1
        except Exception as error:  # a survey goes on whatever one operator does
            problems[f"{type(error).__name__}: {error}"] += 1
        else:
            return HostRow(label, True, True)
    return HostRow(label, True, False, problems.most_common(1)[0][0] if problems else "no attempt")


def _first_lines(message: str) -> str:
    return " | ".join(line.strip() for line in message.splitlines()[:3])[:300]


def _attempts(
    found: ProjectOperator, chip: str
) -> Iterator[tuple[list[Any], list[GeType], dict[str, Any], dict[str, Any]]]:
    """Calls to try: every input of one shape, then matrices against vectors; optional inputs left out, then given."""
    of = found.definition.for_chip(chip)
    combinations = max([1, *(len(t.dtypes) for t in of.inputs)])
    needs = of.needs_value
    for combination in dict.fromkeys((0, combinations // 2, combinations - 1)):
        types = [t.dtype(combination) or GE_TYPES[0] for t in of.inputs]
        for shape in _SHAPES:
            for with_optional in (False, True):
                for filler in range(3):
                    shapes = [_shape_of(t, shape, with_optional) for t in of.inputs]
                    values = {
                        t.name: np.ones(s, types[i].numpy)
                        for i, (t, s) in enumerate(zip(of.inputs, shapes, strict=True))
                        if s is not None and t.mode != DYNAMIC and (t.value_depends or i in needs)
                    }
                    yield shapes, types, values, _attributes(of, filler)


def _like_inputs(found: ProjectOperator, shapes: list[Any]) -> list[Any] | None:
    """Outputs of the first input's shape, for operators whose inference is elsewhere; None where outputs follow an input."""
    of = found.definition
    if not shapes or all(t.follows for t in of.outputs):
        return None
    first = shapes[0][0] if of.inputs[0].mode == DYNAMIC else shapes[0]
    return [[first, first] if t.mode == DYNAMIC else first for t in of.outputs]


def _shape_of(tensor: TensorDef, shape: tuple[int, ...], with_optional: bool) -> Any:
    if tensor.mode == OPTIONAL and not with_optional:
        return None
    return [shape, shape] if tensor.mode == DYNAMIC else shape


def _attributes(of: OperatorDef, filler: int) -> dict[str, Any]:
    missing = (a for a in of.attributes if a.required and a.default is None)
    return {a.name: _FILLERS[a.kind][min(filler, len(_FILLERS[a.kind]) - 1)] for a in missing}


if __name__ == "__main__":
    print(json.dumps(asdict(try_operator(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))))

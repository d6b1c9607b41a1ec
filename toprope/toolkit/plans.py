"""Stage one of aclnn calls: which operator answers, its tiling, and the kernel that the program then launches."""

from __future__ import annotations

import json
import math
import os
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from toprope.errors import BadInput, TopropeError
from toprope.kernel import cores_of
from toprope.project.ge_types import GE_TYPES
from toprope.project.host import DYNAMIC, TensorValue
from toprope.project.loaded import ProjectOperator, load_project
from toprope.toolkit import (  # noqa: F401  (their rows)
    array_functions,
    attention_functions,
    layer_functions,
    loss_functions,
    random_functions,
    serving_functions,
    training_functions,
)
from toprope.toolkit.calls import Call, Item, Tensor
from toprope.toolkit.executors import Executors, cores_and_paths
from toprope.toolkit.functions import FUNCTIONS, Shapes
from toprope.toolkit.least_time import least_us
from toprope.toolkit.session import GENERATED, LIBRARY, REFERENCE, LaunchRow, Session
from toprope.trace import Array

REFUSED, NO_EXECUTOR = 161002, 561003
_PLAIN = {"conv2d": 0}  # of an operator of the library: the number of the format that it takes, where that is not ND
PACKAGE = "toprope"
"""The folder of an installed operator package (opp/vendors/NAME) that holds its projects and `index.json`: function -> folder."""


class Planner:
    """Answers the aclnn calls of one program."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.calls = 0
        self._operators: dict[str, ProjectOperator] = {}
        assert session.soc is not None
        self.executors = Executors(session.soc)
        session.why = self.executors.why

    # ---- the two stages -----------------------------------------------------------------------------------------------------

    def plan(self, message: dict[str, Any]) -> tuple[str, bytes]:
        """Stage one: the answer as lines of text (runtime/aclnn.cpp reads them), and the tiling data."""
        function, self.calls = message["function"], self.calls + 1
        groups = _grouped(message["args"])
        try:
            operator = self._operator(function)
            if operator is not None:
                return self._project(function, operator, groups)
            call = Call(function, groups, self._python)
            if (answer := self._library(call) or self._generated(call)) is not None:
                return answer
            if function not in FUNCTIONS:
                raise BadInput(
                    f"{function} has no executor",
                    cure="build a package or project that defines it and set ASCEND_CUSTOM_OPP_PATH, or toprope run --project FOLDER",
                )
            return f"0\t0\t{self.calls}\trecorder", b""
        except TopropeError as error:
            code = NO_EXECUTOR if "no executor" in error.message else REFUSED
            self.session.take({"t": "refused", "message": error.message, "cure": error.cure, "at": message["at"]}, b"")
            return f"{code}\t0\t0\trefused\t{error.message}", b""

    def execute(self, message: dict[str, Any]) -> tuple[str, bytes]:
        """Stage two of a call without a kernel: the reference on the device memory; its time is the roofline's."""
        function = message["function"]
        groups = _grouped(message["args"])
        values = [self._python(g) for g in groups]
        tensors = [t for v in values for t in (v if isinstance(v, list) else [v]) if isinstance(t, np.ndarray)]
        refused: TopropeError | None = None
        shapes: Shapes | None = None
        try:
            shapes = FUNCTIONS[function](values)
        except TopropeError as error:
            refused = error
        except (
            ArithmeticError,
            IndexError,
            KeyError,
            NotImplementedError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:
            given = ", ".join(f"{t.dtype}{list(t.shape)}" for t in tensors)
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            refused = BadInput(
                f"the reference of {function} cannot do this call ({given}): {why}",
                cure="build a package or project that defines it, or use other types",
            )
        if refused is not None:
            self.session.take(
                {"t": "refused", "message": refused.message, "cure": refused.cure, "at": message["at"]}, b""
            )
            return f"1\t{refused.message}", b""
        soc, clock = self.session.soc, self.session.clock
        assert soc is not None and clock is not None
        us = least_us(soc, function, values)
        file, line = self.session.place(message["at"])
        self.session.launches.append(LaunchRow(function, soc.aiv, us, file, line, message["stream"], REFERENCE))
        clock.kernel(
            function, message["stream"], message["number"], message["epoch"], us, (0, soc.aiv), "reference, roofline"
        )
        told = [f"\nS\t{groups[at][0].at}\t{','.join(map(str, shape))}" for at, shape in (shapes or {}).items()]
        return "".join(["0", *told]), b""

    # ---- operators ----------------------------------------------------------------------------------------------------------

    def _library(self, call: Call) -> tuple[str, bytes] | None:
        """The answer by an operator of the library."""
        found = self.executors.library(call)
        if found is None:
            return None
        made, operator = found
        of = operator.definition
        soc = self.session.soc
        assert soc is not None

        def described(tensor: Tensor | None) -> list[TensorValue]:
            if tensor is None:
                return []
            item = items[tensor.at]
            # A tensor is handed over dense, whatever format its memory was given.
            return [TensorValue(tensor.shape, GE_TYPES[item.data["type"]], _PLAIN.get(made.operator, 2))]

        items = {i.at: i for g in call.groups for i in g}

        def ready() -> Any:
            inputs, results = [described(t) for t in made.inputs], [described(t) for t in made.outputs]
            prepared = operator.prepared(inputs, results, soc=soc, attributes=made.attributes)
            return prepared, cores_and_paths(prepared.kernel, 1, soc, prepared.tiling.key, prepared.kernel.build)

        kinds = "-".join(t.kind for t in made.inputs if t is not None)
        built = self.executors.compiled(call, ready, f"{made.operator}-{kinds}-{soc.name}")
        if built is None:
            return None
        prepared, (paths, counts) = built
        tiling = prepared.tiling
        shown = f"{call.function} ({made.operator})"
        self.session.executors[shown] = LIBRARY
        words = [f"p{t.at}" if t is not None else "0" for t in (*made.inputs, *made.outputs)]
        lines = [f"0\t{tiling.workspace_bytes}\t{self.calls}\tkernel"]
        for d, tensor in zip(prepared.definition.outputs, made.outputs, strict=True):
            if d.initial is not None and all(v == 0 for v in d.initial):
                lines.append(f"Z\t{tensor.at}")
        assert len(words) == len(of.inputs) + len(of.outputs)
        names = ",".join(p.name for p in prepared.kernel.entry.parameters)
        row = [
            prepared.kernel.name,
            shown,
            tiling.block_dim,
            tiling.key,
            *paths,
            *counts,
            names,
            ",".join([*words, "w", "t"]),
        ]
        return "\n".join([*lines, "L\t" + "\t".join(map(str, row))]), tiling.data

    def _generated(self, call: Call) -> tuple[str, bytes] | None:
        """The answer by kernels that the tile language makes."""
        soc = self.session.soc
        assert soc is not None
        made = self.executors.generated(call)
        if made is None:
            return None
        shown = f"{call.function} (generated)"
        lines = [f"0\t0\t{self.calls}\tkernel"]
        for each, launch in made:
            kernel = launch.kernel
            built = self.executors.compiled(
                call, partial(cores_and_paths, kernel, 1, soc, 0, kernel.build), f"{kernel.path.parent.name}-{soc.name}"
            )
            if built is None:
                return None
            paths, counts = built
            words = [f"{'r' if t.as_it_lies else 'p'}{t.at}" for t in each.arrays] + [f"v{n}" for n in launch.numbers]
            names = ",".join(p.name for p in kernel.entry.parameters)
            row = [kernel.name, shown, launch.blocks, 0, *paths, *counts, names, ",".join(words)]
            lines.append("L\t" + "\t".join(map(str, row)))
        self.session.executors[shown] = GENERATED
        return "\n".join(lines), b""

    def _operator(self, function: str) -> ProjectOperator | None:
        if function not in self._operators:
            given = {f"aclnn{o.name}": o for o in self.session.operators.values()}
            found = given.get(function)
            if found is None and "@" in function:  # toprope.torch names the project beside the function
                name, _, folder = function.partition("@")
                found = load_project(Path(folder), name.removeprefix("aclnn"))
            if found is None and function in self._packages:
                found = load_project(self._packages[function], function.removeprefix("aclnn"))
            if found is None:
                return None
            self._operators[function] = found
        return self._operators[function]

    @cached_property
    def _packages(self) -> dict[str, Path]:
        """Project folders of installed packages by function; the first of the search path wins."""
        roots = [Path(p) for p in os.environ.get("ASCEND_CUSTOM_OPP_PATH", "").split(":") if p]
        if opp := os.environ.get("ASCEND_OPP_PATH"):
            roots += sorted(Path(opp, "vendors").glob("*"))
        out: dict[str, Path] = {}
        for root in roots:
            for index in (root / PACKAGE / "index.json", *sorted(root.glob(f"*/{PACKAGE}/index.json"))):
                if index.is_file():
                    for function, folder in json.loads(index.read_text()).items():
                        out.setdefault(function, index.parent / folder)
        return out

    def _project(self, function: str, operator: ProjectOperator, groups: list[list[Item]]) -> tuple[str, bytes]:
        """The answer for an operator with host code and a kernel of its own."""
        soc = self.session.soc
        assert soc is not None
        of = operator.definition
        n, a = len(of.inputs), len(of.attributes)
        if len(groups) != n + a + len(of.outputs):
            raise BadInput(
                f"{function} was called with {len(groups)} arguments, its definition has {n + a + len(of.outputs)}",
                cure="generate the header of the same project again",
            )
        inputs, given, outputs = groups[:n], groups[n : n + a], groups[n + a :]
        attributes = {
            d.name: v for d, g in zip(of.attributes, given, strict=True) if (v := self._python(g)) is not None
        }
        described = [
            [self._described(i, with_value=d.value_depends) for i in _tensors(g)]
            for d, g in zip(of.inputs, inputs, strict=True)
        ]
        results = [[self._described(i, with_value=False) for i in _tensors(g)] for g in outputs]
        ready = operator.prepared(described, results, soc=soc, attributes=attributes)
        tiling = ready.tiling
        cores = cores_of(ready.kernel, 1, soc, tiling.key)[0]
        types = {c.type for c in cores}
        paths = [str(ready.kernel.build(soc, t)) if t in types else "-" for t in ("aiv", "aic", "coupled")]
        words = []
        for d, g in zip((*of.inputs, *of.outputs), [*inputs, *outputs], strict=True):
            members = _tensors(g)
            if d.mode == DYNAMIC:
                words.append(f"d{members[0].at}-{len(members)}" if members else "0")
            else:
                words.append(f"p{members[0].at}" if members else "0")
        names = ",".join(p.name for p in ready.kernel.entry.parameters)
        counts = [sum(c.type == t for c in cores) for t in ("aic", "aiv")]
        lines = [f"0\t{tiling.workspace_bytes}\t{self.calls}\tkernel"]
        for d, g in zip(ready.definition.outputs, outputs, strict=True):
            if d.initial is not None and all(v == 0 for v in d.initial):
                lines += [f"Z\t{i.at}" for i in _tensors(g)]
        row = [
            ready.kernel.name,
            of.type,
            tiling.block_dim,
            tiling.key,
            *paths,
            *counts,
            names,
            ",".join([*words, "w", "t"]),
        ]
        lines.append("L\t" + "\t".join(map(str, row)))
        return "\n".join(lines), tiling.data

    # ---- values -------------------------------------------------------------------------------------------------------------

    def _described(self, item: Item, *, with_value: bool) -> TensorValue:
        value = np.ascontiguousarray(self.array(item)) if with_value else None
        return TensorValue(item.shape, GE_TYPES[item.data["type"]], item.data["format"], value)

    def array(self, item: Item) -> Array:
        """A tensor's elements in device memory, where they are. Raises BadInput for a type that NumPy cannot hold."""
        kind = GE_TYPES[item.data["type"]].numpy
        if kind is None:
            raise BadInput(
                f"a tensor of type {GE_TYPES[item.data['type']]} cannot be held here", cure="use another type"
            )
        shape = item.shape
        steps = item.data["strides"] or [math.prod(shape[k + 1 :]) for k in range(len(shape))]
        if not all(shape) or item.data["file"] < 0:
            return np.empty(shape, kind)
        elements = 1 + sum((s - 1) * t for s, t in zip(shape, steps, strict=True))
        memory = self.session.bytes_at(item.data["file"], elements * kind.itemsize)
        return np.ndarray(shape, kind, memory, strides=[t * kind.itemsize for t in steps])

    def _python(self, group: list[Item]) -> Any:
        """An argument as Python has it; None: left out."""
        data = group[0].data
        kind = data["k"]
        if kind == "tensor":
            return self.array(group[0])
        if kind == "list":
            return [self.array(i) for i in group[1:]]
        if kind == "bools":
            return [bool(v) for v in data["v"]]
        if kind == "scalar":
            return _scalar(data)
        if kind == "scalars":
            return [_scalar(v) for v in data["v"]]
        return data.get("v")


def _scalar(data: dict[str, Any]) -> Any:
    kind = GE_TYPES[data["type"]].numpy
    return None if kind is None else np.frombuffer(bytes.fromhex(data["hex"]), kind)[0].item()


def _grouped(args: list[dict[str, Any]]) -> list[list[Item]]:
    """Arguments one by one; a list with its members."""
    out, i = [], 0
    while i < len(args):
        members = args[i]["n"] if args[i]["k"] == "list" else 0
        out.append([Item(k, args[k]) for k in range(i, i + 1 + members)])
        i += 1 + members
    return out


def _tensors(group: list[Item]) -> list[Item]:
    return [i for i in group if i.data["k"] == "tensor"]

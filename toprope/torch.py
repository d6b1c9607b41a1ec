"""A project's operator as a PyTorch operator in one call: `toprope.torch.register("path/of/project")`.

On the CPU the project's own host code tiles and its own kernel runs on the software NPU inside this process; on npu:0 (with torch_npu, under
`toprope exec`) it is launched on the device's stream like any other operator. torch is not needed for anything else here.
"""

from __future__ import annotations

import ctypes
import functools
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from toprope.errors import BadArgument, BadInput
from toprope.kernel import DEFAULT_SOC
from toprope.project.ge_types import ge_type
from toprope.project.host import DYNAMIC, OPTIONAL, OperatorDef
from toprope.project.loaded import ProjectOperator, load_project
from toprope.project.project_kernel import snake

_ATTRIBUTES = {"int": "int", "float": "float", "bool": "bool", "string": "str", "list_int": "int[]", "list_float": "float[]", "list_bool": "bool[]"}  # fmt: skip
Gradients = Callable[..., Sequence[Any] | Any]


def register(
    project: str | Path | ProjectOperator,
    operator: str = "",
    *,
    namespace: str = "toprope",
    backward: Gradients | None = None,
    shapes: Callable[..., Sequence[Sequence[int]]] | None = None,
    soc: str = DEFAULT_SOC,
) -> Any:
    """Make an operator of a project `torch.ops.<namespace>.<operator>`, and return it: its inputs in order, then its attributes by name.

    `backward(*gradients, *tensors, **attributes)` gives one gradient (or None) for each input tensor. `shapes(*tensors, **attributes)` gives
    the outputs' shapes where the project infers none. Raises BadInput, BadArgument and what loading a project raises.
    """
    import torch  # optional, and slow to import

    found = project if isinstance(project, ProjectOperator) else load_project(Path(project), operator)
    of = found.definition
    name = f"{namespace}::{snake(of.type)}"
    torch.library.define(name, _schema(of))
    one = _Operator(found, of, soc, shapes)
    torch.library.impl(name, "cpu", one.on_cpu)
    torch.library.register_fake(name, one.described)
    with_npu = torch._C._get_privateuse1_backend_name() == "npu"
    if with_npu:
        torch.library.impl(name, "npu", one.on_npu)
    if backward is not None:
        if any(t.mode == DYNAMIC for t in of.inputs):
            raise BadArgument(f"{of.type} takes a list of tensors", cure="register it without backward")
        torch.library.register_autograd(name, _gradients(of, backward), setup_context=_kept(of))
    return getattr(getattr(torch.ops, namespace), snake(of.type))


def _schema(of: OperatorDef) -> str:
    """The signature in PyTorch's words."""
    words = []
    for t in of.inputs:
        kind = "Tensor[]" if t.mode == DYNAMIC else "Tensor?" if t.mode == OPTIONAL else "Tensor"
        words.append(f"{kind} {t.name}" + ("=None" if t.mode == OPTIONAL else ""))
    for a in of.attributes:
        if a.kind not in _ATTRIBUTES:
            raise BadArgument(f"attribute {a.name} of {of.type} is {a.kind}, which PyTorch has not", cure="remove it")
        words.append(f"{_ATTRIBUTES[a.kind]} {a.name}" + _default(a.default, a.kind))
    results = [("Tensor[]" if t.mode == DYNAMIC else "Tensor") for t in of.outputs]
    return f"({', '.join(words)}) -> {results[0] if len(results) == 1 else '(' + ', '.join(results) + ')'}"


def _default(value: Any, kind: str) -> str:
    if value is None:
        return ""
    if kind == "string":
        return f'="{value}"'
    return f"={list(value) if kind.startswith('list_') else value!r}"


def _kept(of: OperatorDef) -> Callable[..., None]:
    count = len(of.inputs)

    def keep(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        ctx.save_for_backward(*inputs[:count])
        ctx.attributes = dict(zip([a.name for a in of.attributes], inputs[count:], strict=False))

    return keep


def _gradients(of: OperatorDef, backward: Gradients) -> Callable[..., Any]:
    def back(ctx: Any, *gradients: Any) -> Any:
        made = backward(*gradients, *ctx.saved_tensors, **ctx.attributes)
        each = tuple(made) if isinstance(made, tuple | list) else (made,)
        if len(each) != len(of.inputs):
            raise BadArgument(
                f"backward of {of.type} gave {len(each)} gradients for {len(of.inputs)} inputs",
                cure="give one for each input, None where there is none",
            )
        return (*each, *[None] * len(of.attributes))

    return back


class _Operator:
    """The implementations of one operator."""

    def __init__(self, found: ProjectOperator, of: OperatorDef, soc: str, shapes: Any) -> None:
        self.found, self.of, self.soc, self.shapes = found, of, soc, shapes

    def _given(self, values: tuple[Any, ...], more: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Inputs in order, and attributes by name."""
        count, names = len(self.of.inputs), [a.name for a in self.of.attributes]
        inputs = [*values[:count], *(more.pop(t.name, None) for t in self.of.inputs[len(values) :])]
        attributes = {**dict(zip(names, values[count:], strict=False)), **more}
        return inputs, {k: v for k, v in attributes.items() if v is not None}

    def described(self, *values: Any, **more: Any) -> Any:
        """Outputs without data, on the device of the first input."""
        inputs, attributes = self._given(values, more)
        first = next(t for t in _flat(inputs))
        if self.shapes is not None:
            sizes = self.shapes(*inputs, **attributes)
            made = [first.new_empty(tuple(size)) for size in sizes]
        else:
            if not self.of.has_infer_shape:
                raise BadInput(f"{self.of.type} has no shape inference", cure="register it with shapes=")
            given = [
                None if t is None else [tuple(x.shape) for x in t] if isinstance(t, list | tuple) else tuple(t.shape)
                for t in inputs
            ]
            types = [_numpy_of(next(_flat([t]), first)) for t in inputs]
            infos = self.found.infer_shape(shapes=given, dtypes=types, soc=self.soc, **attributes)
            made = [first.new_empty(info.shape, dtype=_torch_of(info.dtype.numpy)) for info in infos]
        return made[0] if len(made) == 1 else tuple(made)

    def on_cpu(self, *values: Any, **more: Any) -> Any:
        """Run on the software NPU, in this process; findings of severity error become warnings."""
        inputs, attributes = self._given(values, more)
        arrays = [
            None if t is None else [_array(x) for x in t] if isinstance(t, list | tuple) else _array(t) for t in inputs
        ]
        out = None
        if self.shapes is not None:
            described = self.described(*inputs, **attributes)
            out = [_array(t) for t in (described if isinstance(described, tuple) else (described,))]
        run = self.found.run(*arrays, soc=self.soc, out=out, **attributes)
        for finding in run.findings:
            if finding.severity == "error":
                warnings.warn(f"{self.of.type}: {finding}", stacklevel=2)
        made = [_tensor(v) for v in run.outputs.values()]
        return made[0] if len(made) == 1 else tuple(made)

    def on_npu(self, *values: Any, **more: Any) -> Any:
        """Plan and launch on the current stream of the device."""
        inputs, attributes = self._given(values, more)
        inputs = [
            None if t is None else t.contiguous() if not isinstance(t, list | tuple) else [x.contiguous() for x in t]
            for t in inputs
        ]
        made = self.described(*inputs, **attributes)
        _launch(
            f"aclnn{self.of.type}@{self.found.project.operator.folder}",
            self.of,
            inputs,
            attributes,
            made if isinstance(made, tuple) else (made,),
        )
        return made


def _flat(values: Sequence[Any]) -> Any:
    for v in values:
        if isinstance(v, list | tuple):
            yield from _flat(v)
        elif v is not None:
            yield v


def _array(t: Any) -> np.ndarray[Any, Any]:
    import torch

    t = t.detach().contiguous()
    if t.dtype == torch.bfloat16:  # NumPy has none of its own
        return np.asarray(t.view(torch.int16).numpy()).view(ml_dtypes.bfloat16)
    return np.asarray(t.numpy())


def _tensor(array: Any) -> Any:
    import torch

    plain = np.array(array).view(np.ndarray)
    if plain.dtype == np.dtype(ml_dtypes.bfloat16):
        return torch.from_numpy(plain.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(plain)


def _numpy_of(t: Any) -> np.dtype[Any]:
    name = str(t.dtype).removeprefix("torch.")
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def _torch_of(kind: Any) -> Any:
    import torch

    return getattr(torch, np.dtype(kind).name)


@functools.cache
def _device() -> ctypes.CDLL:
    """The device library that torch_npu has loaded. Raises BadInput where it is not the software NPU's."""
    library = ctypes.CDLL("libascendcl.so")
    if not hasattr(library, "toprope_plan"):
        raise BadInput(
            "this program runs on a device, not on the software NPU",
            cure="install the operator's package there, or use toprope exec",
        )
    for name in ("toprope_plan", "aclCreateTensor", "aclCreateTensorList", "aclCreateIntArray", "aclCreateFloatArray"):
        getattr(library, name).restype = ctypes.c_void_p
    return library


def _described_tensor(library: ctypes.CDLL, t: Any) -> ctypes.c_void_p:
    dims = (ctypes.c_int64 * max(t.dim(), 1))(*t.shape)
    steps = (ctypes.c_int64 * max(t.dim(), 1))(*t.stride())
    rank = ctypes.c_uint64(t.dim())
    kind = ge_type(_numpy_of(t)).number
    made = library.aclCreateTensor(
        dims, rank, kind, steps, ctypes.c_int64(0), 2, dims, rank, ctypes.c_void_p(t.data_ptr())
    )
    return ctypes.c_void_p(made)


def _launch(
    function: str, of: OperatorDef, inputs: Sequence[Any], attributes: dict[str, Any], outputs: Sequence[Any]
) -> None:
    """Both stages of the call, through the device library."""
    import torch

    npu: Any = torch.npu
    library = _device()
    npu.synchronize()  # what the framework still has in its queue comes first
    plan = ctypes.c_void_p(library.toprope_plan(function.encode()))

    def tensors(t: Any, written: int) -> None:
        if isinstance(t, list | tuple):
            members = [_described_tensor(library, x) for x in t]
            row = (ctypes.c_void_p * max(len(members), 1))(*members)
            library.toprope_plan_tensors(
                plan, ctypes.c_void_p(library.aclCreateTensorList(row, ctypes.c_uint64(len(members)))), written
            )
        else:
            library.toprope_plan_tensor(plan, None if t is None else _described_tensor(library, t), written)

    for t in inputs:
        tensors(t, 0)
    for a in of.attributes:
        _plan_attribute(library, plan, a.kind, attributes.get(a.name, a.default))
    for t in outputs:
        tensors(t, 1)
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    code = library.toprope_plan_end(plan, ctypes.byref(size), ctypes.byref(executor))
    if code == 0:
        workspace = torch.empty(max(size.value, 1), dtype=torch.uint8, device=outputs[0].device)
        stream = ctypes.c_void_p(npu.current_stream().npu_stream)
        place = ctypes.c_void_p(workspace.data_ptr()) if size.value else None
        code = library.toprope_execute(function.encode(), place, size, executor, stream)
        npu.synchronize()
    if code != 0:
        raise BadInput(
            f"{of.type} was refused on the device (code {code})", cure="the line that begins with toprope: says why"
        )


def _plan_attribute(library: ctypes.CDLL, plan: ctypes.c_void_p, kind: str, value: Any) -> None:
    if value is None:
        library.toprope_plan_text(plan, None)
    elif kind == "int":
        library.toprope_plan_int(plan, ctypes.c_int64(int(value)))
    elif kind == "float":
        library.toprope_plan_float(plan, ctypes.c_double(value))
    elif kind == "bool":
        library.toprope_plan_bool(plan, ctypes.c_bool(value))
    elif kind == "string":
        library.toprope_plan_text(plan, str(value).encode())
    elif kind == "list_int":
        row = (ctypes.c_int64 * max(len(value), 1))(*value)
        library.toprope_plan_ints(plan, ctypes.c_void_p(library.aclCreateIntArray(row, ctypes.c_uint64(len(value)))))
    elif kind == "list_float":
        floats = (ctypes.c_float * max(len(value), 1))(*value)
        library.toprope_plan_floats(
            plan, ctypes.c_void_p(library.aclCreateFloatArray(floats, ctypes.c_uint64(len(value))))
        )
    else:
        raise BadArgument(
            f"an attribute of kind {kind} cannot be handed to the device", cure="use numbers, words or lists of numbers"
        )

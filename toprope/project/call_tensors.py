"""The tensors of one call of a project's operator: as given, as declared, as inferred, and as the kernel's arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from toprope.errors import BadArgument
from toprope.project.errors import InferFailed
from toprope.project.ge_types import GeType, format_number, ge_type
from toprope.project.host import DYNAMIC, OperatorDef, TensorDef, TensorValue, Tiling

Array = np.ndarray[Any, Any]


def arrays_of(of: OperatorDef, tensor: TensorDef, value: Any, *, copy: bool = True) -> list[Array]:
    """The arrays given for one input, contiguous; copies, so that what the caller has stays as it is, unless nothing will be written."""
    if value is None:
        return []
    values = value if isinstance(value, list | tuple) and tensor.mode == DYNAMIC else [value]
    out = []
    for each in values:
        array = (np.array(each, order="C") if copy else np.asarray(each, order="C")).view(np.ndarray)
        try:
            ge_type(array.dtype)
        except BadArgument as error:
            raise BadArgument(f"input {tensor.name} of {of.type}: {error.message}", cure=error.cure) from None
        out.append(array)
    return out


def described_inputs(
    of: OperatorDef, shapes: list[Any], dtypes: Any, formats: Sequence[str] | None, values: Mapping[str, Any]
) -> list[list[TensorValue]]:
    unknown = set(values) - {t.name for t in of.inputs}
    if unknown:
        raise BadArgument(
            f"{of.type} has no input {', '.join(sorted(unknown))}",
            cure="its inputs are " + ", ".join(t.name for t in of.inputs),
        )
    each = [dtypes] * len(shapes) if isinstance(dtypes, str) or not isinstance(dtypes, Sequence) else list(dtypes)
    each += each[-1:] * (len(shapes) - len(each))
    if len(each) < len(shapes):
        raise BadArgument(
            f"no element type was given for the inputs of {of.type}", cure="pass dtypes, one for all or one each"
        )
    out: list[list[TensorValue]] = []
    for i, (tensor, shape) in enumerate(zip(of.inputs, shapes, strict=True)):
        if shape is None:
            out.append([])
            continue
        kind = ge_type(each[i])
        number = format_number(formats[i]) if formats is not None and i < len(formats) else 2
        members = shape if tensor.mode == DYNAMIC and len(shape) and not np.isscalar(shape[0]) else [shape]
        value = np.ascontiguousarray(values[tensor.name], kind.numpy) if tensor.name in values else None
        out.append([TensorValue(tuple(int(n) for n in s), kind, number, value) for s in members])
    return out


def matching_combination(of: OperatorDef, inputs: list[list[TensorValue]]) -> int:
    """The first declared combination of element types that the given inputs have. Raises BadArgument listing the combinations."""
    pairs = [(d, g[0]) for d, g in zip(of.inputs, inputs, strict=True) if g and d.dtypes]
    count = max([1, *(len(d.dtypes) for d in (*of.inputs, *of.outputs) if not d.free_types)])
    fits = [k for k in range(count) if all(_has(d, t, k) for d, t in pairs)]
    if not fits:
        rows = dict.fromkeys(", ".join(f"{d.name} {d.dtype(k)}" for d, _ in pairs) for k in range(count))
        alike = len({t.dtype for _, t in pairs}) > 1 and all(
            len({d.dtype(k) for d, _ in pairs}) == 1 for k in range(count)
        )
        raise BadArgument(
            f"{of.type} does not take {', '.join(f'{d.name} {t.dtype}' for d, t in pairs)}"
            + ("; all must have the same element type" if alike else ""),
            cure="its definition lists: " + "; ".join(list(rows)[:8]) + (" ..." if len(rows) > 8 else ""),
        )
    return next((k for k in fits if all(d.format(k) == t.format for d, t in pairs)), fits[0])


def _has(tensor: TensorDef, value: TensorValue, combination: int) -> bool:
    return value.dtype in tensor.dtypes if tensor.free_types else tensor.dtype(combination) == value.dtype


def member_count(tensor: TensorDef, lists: Mapping[str, int]) -> int:
    """How many tensors an output is: a dynamic one has as many as the dynamic input of its name, or else as the first."""
    if tensor.mode != DYNAMIC:
        return 1
    return lists.get(tensor.name, next(iter(lists.values()), 1))


def followed_shapes(
    tensor: TensorDef, group: Sequence[TensorValue], inputs: Mapping[str, Sequence[TensorValue]]
) -> list[TensorValue]:
    """An output whose shape the definition ties to an input (Follow). Unknown shapes stay negative and are complained of when needed."""
    source = inputs.get(tensor.follows) or inputs.get(tensor.name)
    if not source:
        return [replace(blank, shape=(-1,)) for blank in group]
    typed = tensor.follow in (0, 1)
    pairs = zip(group, [*source, *[source[-1]] * len(group)], strict=False)
    return [replace(blank, shape=s.shape, dtype=s.dtype if typed else blank.dtype) for blank, s in pairs]


def fresh_output(of: OperatorDef, tensor: TensorDef, value: TensorValue, *, fill: bool = True) -> Array:
    """A new array for an output. Every bit is one (NaN, -1), so that what the kernel leaves out is seen, unless nothing will run."""
    if any(n < 0 for n in value.shape):
        raise InferFailed(
            f"the shape of output {tensor.name} of {of.type} is not known: {list(value.shape)}",
            cure="register a function with SetInferShape, or pass out=[...] with the output arrays",
        )
    if value.dtype.numpy is None:
        raise BadArgument(
            f"output {tensor.name} of {of.type} is {value.dtype}, which NumPy cannot hold",
            cure="choose another element type",
        )
    array = np.empty(value.shape, value.dtype.numpy)
    if fill:
        array.reshape(-1).view(np.uint8)[...] = 0xFF
    return array


def fill_initial(of: OperatorDef, outputs: list[list[Array]], types: Mapping[str, GeType]) -> None:
    for tensor, group in zip(of.outputs, outputs, strict=True):
        if tensor.initial is None:
            continue
        k = tensor.dtypes.index(types[tensor.name]) if types[tensor.name] in tensor.dtypes else 0
        for array in group:
            array[...] = tensor.initial[min(k, len(tensor.initial) - 1)]


def kernel_arguments(
    of: OperatorDef, inputs: list[list[Array]], outputs: list[list[Array]], tiling: Tiling, *, fill: bool = True
) -> list[Any]:
    """The kernel's GM arguments: tensors (a list as its descriptor and then its members), workspace, tiling data."""
    out: list[Any] = []
    for tensor, group in zip((*of.inputs, *of.outputs), [*inputs, *outputs], strict=True):
        if tensor.mode == DYNAMIC:
            out += [_list_descriptor(group), *group]
        else:
            out.append(group[0] if group else None)
    size = tiling.workspace_bytes
    room = np.empty(size, np.uint8)
    if fill:
        room[...] = 0xFF
    out.append(room if size else None)
    out.append(np.frombuffer(bytearray(tiling.data), np.uint8) if tiling.data else None)
    return out


def _list_descriptor(arrays: Sequence[Array]) -> Array:
    """A tensor list as kernels read it: where the pointers begin, each member's rank and shape, then the pointers."""
    words: list[int] = [0]
    for array in arrays:
        words += [array.ndim, *array.shape]
    words[0] = 8 * len(words)
    return np.array([*words, *(a.ctypes.data for a in arrays)], np.uint64)

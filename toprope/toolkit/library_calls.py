"""aclnn calls that an operator of the library answers: how the arguments of the one are those of the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from toprope.toolkit.calls import Call, NotServed, Tensor


@dataclass(frozen=True)
class LibraryCall:
    """An operator of the library with the tensors and attributes of a call."""

    operator: str
    inputs: list[Tensor | None]
    outputs: list[Tensor]
    attributes: dict[str, Any] = field(default_factory=dict)
    work: int = 0  # elements, or multiplications for a product


FLOATS = ("f32", "f16", "bf16")


def library_call(call: Call) -> LibraryCall:
    """The library's operator for a call. Raises NotServed with the reason where there is none for it."""
    found = LIBRARY.get(call.function.removeprefix("aclnn"))
    if found is None:
        raise NotServed("no operator of the library")
    made = found(call)
    tensors = [t for t in (*made.inputs, *made.outputs) if t is not None]
    if not all(math.prod(t.shape) for t in tensors):
        raise NotServed("an empty tensor")
    return made


def _like(kinds: tuple[str, ...], first: Tensor, *others: Tensor) -> None:
    if first.kind not in kinds or any(t.kind != first.kind for t in others):
        raise NotServed("element types " + ", ".join(dict.fromkeys(t.type_name for t in (first, *others))))


def _add(call: Call) -> LibraryCall:
    x, y = call.tensor(0), call.tensor(1)
    out = x if call.function.startswith("aclnnInplace") else call.tensor(3)
    _like((*FLOATS, "i32"), x, y, out)
    alpha = call.number(2)
    if x.shape != y.shape or x.shape != out.shape or alpha is None or (x.kind == "i32" and alpha != int(alpha)):
        raise NotServed("shapes that broadcast")
    return LibraryCall("add", [x, y], [out], {"alpha": float(alpha)}, math.prod(x.shape))


def _pow(call: Call) -> LibraryCall:
    x, y = call.tensor(0), call.tensor(1)
    out = x if call.function.startswith("aclnnInplace") else call.tensor(2)
    _like(FLOATS, x, y, out)
    if x.shape != y.shape or x.shape != out.shape:
        raise NotServed("shapes that broadcast")
    return LibraryCall("pow", [x, y], [out], {}, 8 * math.prod(x.shape))


def _softmax(call: Call) -> LibraryCall:
    x, out = call.tensor(0), call.tensor(2)
    _like(FLOATS, x, out)
    dim = call.number(1)
    if not x.shape or dim is None or int(dim) % len(x.shape) != len(x.shape) - 1:
        raise NotServed("not along the last axis")
    return LibraryCall("softmax", [x], [out], {}, math.prod(x.shape))


def _rms_norm(call: Call) -> LibraryCall:
    x, gamma, out, rstd = call.tensor(0), call.tensor(1), call.tensor(3), call.tensor(4)
    _like(FLOATS, x, gamma, out)
    _like(("f32",), rstd)
    return LibraryCall("rms_norm", [x, gamma], [out, rstd], {"epsilon": call.number(2)}, math.prod(x.shape))


def _layer_norm(call: Call) -> LibraryCall:
    x, gamma, beta, out = call.tensor(0), call.tensor(2), call.tensor(3), call.tensor(5)
    mean, rstd = call.tensor(6), call.tensor(7)
    _like(FLOATS, x, gamma, beta, out)
    _like(("f32",), mean, rstd)
    return LibraryCall(
        "layer_norm", [x, gamma, beta], [out, mean, rstd], {"epsilon": call.number(4)}, math.prod(x.shape)
    )


def _matmul(call: Call) -> LibraryCall:
    a, b, out = call.tensor(0), call.tensor(1), call.tensor(2)
    _like(("f16",), a, b, out)
    if len(a.shape) != 2 or len(b.shape) != 2 or not (a.dense and b.dense):
        raise NotServed("not two matrices as they lie")
    return LibraryCall("matmul", [a, b], [out], {}, math.prod(a.shape) * b.shape[1])


def _gather(call: Call) -> LibraryCall:
    if call.function == "aclnnIndexSelect" and call.number(1) != 0:
        raise NotServed("not along the first axis")
    rows, at, out = (
        call.tensor(0),
        call.tensor(1 if call.function == "aclnnEmbedding" else 2),
        call.tensor(len(call.groups) - 1),
    )
    _like(("i32",), at)
    return LibraryCall("gather", [rows, at], [out], {}, math.prod(out.shape))


def _conv2d(call: Call) -> LibraryCall:
    x, w, out = call.tensor(0), call.tensor(1), call.tensor(9)
    bias = call.tensors_of(2)[0] if call.tensors_of(2) else None
    _like(("f16",), x, w, out, *([bias] if bias else []))
    stride, pad, dilation = call.integers(3), call.integers(4), call.integers(5)
    if len(x.shape) != 4 or call.number(6) or call.number(8) != 1 or not (x.dense and w.dense and out.dense):
        raise NotServed("not an ordinary convolution in two dimensions")
    pads = [pad[0], pad[0], pad[1], pad[1]] if len(pad) == 2 else pad
    attributes = {"strides": stride, "pads": pads, "dilations": dilation}
    return LibraryCall("conv2d", [x, w, bias], [out], attributes, math.prod(out.shape) * math.prod(w.shape[1:]))


LIBRARY: dict[str, Callable[[Call], LibraryCall]] = {
    "Add": _add, "InplaceAdd": _add, "PowTensorTensor": _pow, "InplacePowTensorTensor": _pow, "Softmax": _softmax, "RmsNorm": _rms_norm,
    "LayerNorm": _layer_norm, "Matmul": _matmul, "Mm": _matmul, "Embedding": _gather, "IndexSelect": _gather, "Convolution": _conv2d,
}  # fmt: skip

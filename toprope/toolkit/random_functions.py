"""References of aclnn functions whose shapes hang on data, and of those that draw random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from toprope.toolkit.functions import FUNCTIONS, Array, Shapes, Values, row, store
from toprope.toolkit.operator_library import table
from toprope.toolkit.through_torch import T, tensor

# ---- shapes that hang on data: the call's answer names them ---------------------------------------------------------------------------


def _nonzero(v: Values) -> Shapes:
    found = np.argwhere(v[0])
    transposed = v[1].shape[:1] == (v[0].ndim,) and v[1].shape[1:] == (v[0].size,) and v[0].ndim != v[0].size
    return _answered(v, {1: found.T if transposed else found})


def _answered(v: Values, made: dict[int, Array]) -> Shapes:
    """Store results at the beginning of places that are large enough for any, and say how large they are."""
    shapes: Shapes = {}
    for at, value in made.items():
        place = v[at]
        if place is None or (place.size == 0 and value.size):
            continue
        np.reshape(place, -1)[: value.size] = value.reshape(-1)
        shapes[at] = value.shape
    return shapes


def _masked_select(v: Values) -> Shapes:
    x, mask = np.broadcast_arrays(v[0], v[1])
    return _answered(v, {2: x[mask.astype(bool)]})


def _distinct(x: Array) -> list[Array]:
    """The values of a tensor in order, which of them each element is, and how often each comes."""
    made = [t.numpy() for t in T.unique(tensor(x), return_inverse=True, return_counts=True)]
    return [made[0].astype(x.dtype), made[1], made[2]]


def _first_of_each(v: Values) -> Shapes:
    return _answered(v, dict(zip((3, 4), _distinct(v[0]), strict=False)))


def _first_of_each_counted(v: Values) -> Shapes:
    return _answered(v, dict(zip((4, 5, 6), _distinct(v[0]), strict=True)))


def _first_of_axis(v: Values) -> Shapes:
    made = [t.numpy() for t in T.unique(tensor(v[0]), dim=v[3], return_inverse=True, return_counts=True)]
    return _answered(v, {4: made[0].astype(v[0].dtype), 5: made[1], 6: made[2]})


def _runs(v: Values) -> Shapes:
    dim = None if v[3] in (1000, None) else v[3]
    made = [t.numpy() for t in T.unique_consecutive(tensor(v[0]), return_inverse=True, return_counts=True, dim=dim)]
    return _answered(v, {4: made[0].astype(v[0].dtype), 5: made[1], 6: made[2]})


FUNCTIONS["aclnnNonzero"] = FUNCTIONS["aclnnNonzeroV2"] = _nonzero
FUNCTIONS["aclnnMaskedSelect"] = _masked_select
FUNCTIONS["aclnnUnique"], FUNCTIONS["aclnnUnique2"] = _first_of_each, _first_of_each_counted
FUNCTIONS["aclnnUniqueDim"], FUNCTIONS["aclnnUniqueConsecutive"] = _first_of_axis, _runs

# ---- random numbers: Philox by seed and offset, the same on every run -----------------------------------------------------------------


def _generator(seed: Any, offset: Any, more: Any = 0) -> np.random.Generator:
    def number(value: Any) -> int:
        return int(np.asarray(value).reshape(-1)[0]) & ((1 << 64) - 1)

    return np.random.Generator(np.random.Philox(key=number(seed), counter=[number(offset) + int(more), 0, 0, 0]))


def _seeded(name: str, draw: Callable[[np.random.Generator, Values, Array], Any]) -> None:
    """The forms of a function with seed and offset as numbers, and as tensors with one number more."""
    for form in (name, f"{name}Tensor"):
        declared = table().get(f"aclnn{form}")
        if declared is None:
            continue
        at = next(n for n, p in enumerate(declared) if p.name in ("seed", "seedTensor"))
        out = 0 if form.startswith("Inplace") else len(declared) - 1
        as_tensors = declared[at].name == "seedTensor"

        def fill(v: Values, at: int = at, out: int = out, as_tensors: bool = as_tensors) -> None:
            generator = _generator(v[at], v[at + 1], v[at + 2] if as_tensors else 0)
            store(v[out], draw(generator, v, v[out]))

        FUNCTIONS[f"aclnn{form}"] = fill


def _whole(generator: np.random.Generator, v: Values, out: Array) -> Any:
    """As torch's random_: every whole number that the type holds exactly."""
    most = {"f2": 1 << 11, "f4": 1 << 24, "f8": 1 << 53, "b1": 1}.get(f"{out.dtype.kind}{out.dtype.itemsize}")
    if most is None:
        most = 1 << 8 if out.dtype.kind not in "iuf" else int(np.iinfo(out.dtype).max)
    return generator.integers(0, most, out.shape, endpoint=True, dtype=np.int64 if most < (1 << 63) else np.uint64)


def _multinomial(generator: np.random.Generator, v: Values, out: Array) -> Any:
    weights = v[0].astype(np.float64).reshape(-1, v[0].shape[-1])
    rows = [generator.choice(w.size, v[1], bool(v[2]), w / w.sum()) for w in weights]
    return np.stack(rows).reshape(out.shape)


_seeded("InplaceNormal", lambda g, v, out: g.normal(v[1], v[2], out.shape))
_seeded("InplaceUniform", lambda g, v, out: _below(g.uniform(v[1], v[2], out.shape), v[2], out))
_seeded("InplaceRandom", lambda g, v, out: g.integers(v[1], v[2], out.shape))
_seeded("InplaceRandomWithoutFromTo", _whole)
_seeded("InplaceBernoulli", lambda g, v, out: g.random(out.shape) < v[1])
_seeded("Bernoulli", lambda g, v, out: g.random(out.shape) < v[1])
_seeded("Randperm", lambda g, v, out: g.permutation(v[0]))
_seeded("Multinomial", _multinomial)
_seeded("NormalFloatFloat", lambda g, v, out: g.normal(v[0], v[1], out.shape))
_seeded("NormalFloatTensor", lambda g, v, out: v[0] + g.normal(size=out.shape) * v[1].astype(np.float32))
_seeded("NormalTensorFloat", lambda g, v, out: v[0].astype(np.float32) + g.normal(size=out.shape) * v[1])
_seeded(
    "NormalTensorTensor", lambda g, v, out: v[0].astype(np.float32) + g.normal(size=out.shape) * v[1].astype(np.float32)
)
for _name in ("InplaceBernoulliTensor", "BernoulliTensor"):  # here the probability is the tensor
    FUNCTIONS[f"aclnn{_name}"] = (
        lambda v: store(v[0] if len(v) == 4 else v[4], _generator(v[2], v[3]).random((v[0] if len(v) == 4 else v[4]).shape) < v[1])
    )  # fmt: skip
FUNCTIONS["aclnnSimThreadExponential"] = lambda v: store(v[0], _generator(v[3], v[4]).exponential(1 / v[2], v[0].shape))


def _below(made: Any, end: float, out: Array) -> Any:
    """Rounding to a shorter type may reach the end, which is not drawn."""
    last = out.dtype.type(end)
    if float(last) >= end:
        last = np.nextafter(last, out.dtype.type(-np.inf))
    return np.where(made.astype(out.dtype).astype(np.float64) >= end, float(last), made)


def _kept(seed: Any, offset: Any, shape: Sequence[int], drop: float) -> Array:
    return np.asarray(_generator(seed, offset).random(tuple(shape)) < 1 - drop)


def _bits(kept: Array, out: Array) -> None:
    packed = np.packbits(kept.reshape(-1), bitorder="little")
    flat = np.zeros(out.nbytes, np.uint8)
    flat[: packed.size] = packed
    store(out, flat.view(out.dtype).reshape(out.shape))


def _unpacked(mask: Array, shape: tuple[int, ...]) -> Array:
    count = math.prod(shape)
    return np.unpackbits(np.ascontiguousarray(mask).view(np.uint8).reshape(-1), count=count, bitorder="little").reshape(
        shape
    )


def _dropped(x: Array, kept: Array, drop: float) -> Any:
    return np.zeros(x.shape, np.float32) if drop >= 1 else x.astype(np.float32) * kept / np.float32(1 - drop)


def _dropout_v3(v: Values) -> None:
    kept = _kept(v[3], v[4], v[0].shape, v[2])
    store(v[5], _dropped(v[0], kept, v[2]))
    _bits(kept, v[6])


def _dropout(v: Values) -> None:
    x, drop, training = v[0], v[1], v[2]
    kept = _kept(v[3], v[4], x.shape, drop) if training else np.ones(x.shape, bool)
    store(v[5], _dropped(x, kept, drop if training else 0.0))
    _bits(kept, v[6])


row("DropoutGenMask", lambda v: _bits(_kept(v[2], v[3], v[0], v[1]), v[4]))
row("DropoutGenMaskV2", lambda v: _bits(_kept(v[2], v[3], v[0], v[1]), v[5]))
row("DropoutGenMaskV2Tensor", lambda v: _bits(_kept(v[2], int(v[3].reshape(-1)[0]) + v[4], v[0], v[1]), v[6]))
row("DropoutDoMask", lambda v: store(v[3], _dropped(v[0], _unpacked(v[1], v[0].shape), v[2])))
row("DropoutBackward", lambda v: store(v[3], v[0].astype(np.float32) * _unpacked(v[1], v[0].shape) * v[2]))
row("DropoutV3Grad", lambda v: store(v[3], v[0].astype(np.float32) * _unpacked(v[1], v[0].shape) * v[2]))
row("DropoutV3", _dropout_v3)
row("Dropout", _dropout)


def _leaky_noise(v: Values) -> None:
    x, noise, low, high, training = v[:5]
    out = v[7] if len(v) > 7 else x
    slopes = _generator(v[5], v[6]).uniform(low, high, x.shape) if training else np.full(x.shape, (low + high) / 2)
    made = np.where(x > 0, x, x * slopes.astype(np.float32))
    if training:
        store(noise, np.where(x > 0, 1, slopes))
    store(out, made)


row("RReluWithNoise", _leaky_noise)
row("InplaceRReluWithNoise", _leaky_noise)

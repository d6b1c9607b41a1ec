"""References of aclnn functions by torch on the CPU: how a row of the table is made of one expression over torch tensors.

torch is not needed for anything else here, so it is imported when the first such function is called.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from toprope.errors import BadInput
from toprope.toolkit.functions import FUNCTIONS, Array, Values, store
from toprope.toolkit.operator_library import table


@cache
def torch() -> Any:
    """torch, without the device that a torch_npu beside it would bring: this process is the device. Raises BadInput where there is none."""
    before = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD")
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    try:
        import torch as found
    except ImportError:
        raise BadInput("the reference of this function needs torch", cure="pip install torch") from None
    finally:
        if before is None:
            del os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]
        else:
            os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = before
    return found


class _Aten:
    """torch.ops.aten, looked at when a function is called."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *values, **more: getattr(torch().ops.aten, name)(*values, **more)


class _Functional:
    """torch.nn.functional, looked at when a function is called."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *values, **more: getattr(torch().nn.functional, name)(*values, **more)


class _Torch:
    """torch itself, looked at when a function is called."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch(), name)


aten, F, T = _Aten(), _Functional(), _Torch()


def tensor(value: Any) -> Any:
    """An array as a torch tensor, short floats as float32; lists of arrays likewise, other values as they are."""
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return [tensor(v) for v in value]
    if not isinstance(value, np.ndarray):
        return value
    short = value.dtype.itemsize < 4 and value.dtype.kind not in "iub"
    return torch().from_numpy(value.astype(np.float32) if short else _readable(value))


def _readable(value: Array) -> Array:
    if any(step < 0 or step % value.itemsize for step in value.strides) or not value.dtype.isnative:
        return np.ascontiguousarray(value)
    return value if value.flags.writeable else value.copy()


def put(out: Array | None, made: Any) -> None:
    """Store a torch tensor or number; an output that was not asked for is left out."""
    if out is None:
        return
    store(out, made.detach().resolve_conj().resolve_neg().numpy() if hasattr(made, "detach") else made)


def via(names: str, compute: Callable[..., Any], outs: int = 1) -> None:
    """The rows of functions (words) that compute one expression: it takes what comes before the `outs` outputs.

    The form in place, where the vendor declares one, takes all of its arguments and writes the first. `cubeMathType` is no argument of it.
    """
    for name in names.split():
        declared = table()[f"aclnn{name}"]
        at = [n for n, p in enumerate(declared) if p.name != "cubeMathType"]
        inputs, places = at[: len(at) - outs], at[len(at) - outs :]
        FUNCTIONS[f"aclnn{name}"] = _filled(compute, inputs, places)
        again = table().get(f"aclnnInplace{name}")
        if again is not None:
            every = [n for n, p in enumerate(again) if p.name != "cubeMathType"]
            FUNCTIONS[f"aclnnInplace{name}"] = _filled(compute, every, [0])


def _filled(compute: Callable[..., Any], inputs: Sequence[int], places: Sequence[int]) -> Callable[[Values], None]:
    def fill(values: Values) -> None:
        with torch().no_grad():
            made = compute(*(tensor(values[n]) for n in inputs))
        results = made if isinstance(made, tuple | list) and not isinstance(values[places[0]], list) else [made]
        for place, result in zip(places, results, strict=True):
            if isinstance(values[place], list):
                for out, part in zip(values[place], result, strict=True):
                    put(out, part)
            else:
                put(values[place], result)

    return fill


def gradients(compute: Callable[..., Any], inputs: Sequence[Any], gradient: Any) -> tuple[Any, ...]:
    """The gradients of an expression by its inputs (None for one that is None), with `gradient` from above."""
    with torch().enable_grad():
        leaves = [None if x is None else x.detach().clone().requires_grad_() for x in inputs]
        made = compute(*leaves)
        given = [x for x in leaves if x is not None]
        found = iter(torch().autograd.grad(made, given, gradient.expand_as(made), allow_unused=True))
    return tuple(None if x is None else _or_zero(next(found), x) for x in leaves)


def _or_zero(found: Any, like: Any) -> Any:
    return torch().zeros_like(like) if found is None else found


def masked(results: Sequence[Any], mask: Sequence[bool]) -> tuple[Any, ...]:
    """Results that were asked for; None where they were not."""
    return tuple(r if wanted else None for r, wanted in zip(results, mask, strict=True))


REDUCTIONS = ("none", "mean", "sum")


def reduced(value: Any, reduction: int | str) -> Any:
    """A loss for each element, or its mean or sum (0, 1, 2, or the words)."""
    word = REDUCTIONS[reduction] if isinstance(reduction, int) else reduction
    return value if word == "none" else value.mean() if word == "mean" else value.sum()

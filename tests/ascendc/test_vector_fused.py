"""Fused steps against NumPy: one element type rounds after each step, half into float only at the end."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_image import CXX, PRELUDE, Array, calls, check_call, entry
from toprope.kernel import KernelFile


def step(f: Callable[[Array, Array], Array], a: Array, b: Array) -> Array:
    """One operation in the operands' own type."""
    return f(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype) if a.dtype == np.float16 else f(a, b)


def relu(x: Array) -> Array:
    return np.where((x > 0) | (x != x), x, 0).astype(x.dtype)


def narrow(dtype: str, x: Array) -> Array:
    if dtype == "float16":
        return x.astype(np.float16)
    info = np.iinfo(dtype)
    return np.nan_to_num(np.clip(np.rint(x.astype(np.float64)), info.min, info.max), nan=0).astype(dtype)


def mul_add_dst(a: Array, b: Array, d: Array) -> Array:
    if a.dtype != d.dtype:
        return a.astype(np.float32) * b.astype(np.float32) + d
    return step(np.add, step(np.multiply, a, b), d)


ORACLES: dict[str, Callable[..., Array]] = {
    "AddRelu": lambda a, b: relu(step(np.add, a, b)),
    "SubRelu": lambda a, b: relu(step(np.subtract, a, b)),
    "AddReluCast": lambda a, b: relu(step(np.add, a, b)),
    "SubReluCast": lambda a, b: relu(step(np.subtract, a, b)),
    "MulCast": lambda a, b: step(np.multiply, a, b),
    "FusedMulAdd": lambda a, b, d: step(np.add, step(np.multiply, a, d), b),
    "MulAddRelu": lambda a, b, d: relu(step(np.add, step(np.multiply, a, d), b)),
    "FusedMulAddRelu": lambda a, b, d: relu(step(np.add, step(np.multiply, a, d), b)),
    "MulAddDst": mul_add_dst,
    "Axpy": lambda x, d: mul_add_dst(x, np.full_like(x, 0.3), d),
    "AddDeqRelu": lambda a, b: relu(
        ((a + b).astype(np.float32) * np.float32(2**-17) * np.float32(0.25) * np.float32(2**17)).astype(np.float16)
    ),
}
PAIRS: dict[str, tuple[tuple[str, str], ...]] = {
    "AddRelu": tuple((t, t) for t in ("int16", "float16", "float32")),
    "SubRelu": tuple((t, t) for t in ("int16", "float16", "float32")),
    "AddReluCast": (("int8", "float16"), ("int8", "int16"), ("float16", "float32")),
    "SubReluCast": (("int8", "float16"), ("int8", "int16"), ("float16", "float32")),
    "MulCast": (("int8", "float16"), ("uint8", "float16")),
    "FusedMulAdd": (("float16", "float16"), ("float32", "float32")),
    "MulAddRelu": (("float16", "float16"), ("float32", "float32")),
    "FusedMulAddRelu": (("float16", "float16"), ("float32", "float32")),
    "MulAddDst": (("float16", "float16"), ("float32", "float32"), ("float32", "float16")),
    "Axpy": (("float16", "float16"), ("float32", "float32"), ("float32", "float16")),
    "AddDeqRelu": (("float16", "int32"),),
}
CASES = [(name, d, s) for name, pairs in PAIRS.items() for d, s in pairs]
READS_DST = ("FusedMulAdd", "MulAddRelu", "FusedMulAddRelu", "MulAddDst", "Axpy")


def cases_of(name: str, d: str, s: str) -> str:
    sources = "a, U(0.3f)" if name == "Axpy" else "a, b"
    params = "u1" if name == "Axpy" else "p2"
    types = (
        "T, U, false"
        if name in ("Axpy", "MulAddDst", "AddReluCast", "SubReluCast", "MulCast", "AddDeqRelu")
        else "T, false"
    )
    before = "SetDeqScale(half(0.25f));" if name == "AddDeqRelu" else ""
    return f"""
        case 0: {before} {name}(d, {sources}, n); break;
        case 1: {before} {name}(d, {sources}, (uint64_t)n, rep, {params}); break;
        case 2: {before} {name}(d, {sources}, m, rep, {params}); break;
        case 3: {before} COUNTED; {name}<{types}>(d, {sources}, MASK_PLACEHOLDER, rep, {params}); DONE; break;
        case 4: {before} REGISTERS; {name}<{types}>(d, {sources}, MASK_PLACEHOLDER, rep, {params}); DONE; break;"""


@pytest.fixture(scope="module")
def fused() -> KernelFile:
    return kernels(
        PRELUDE
        + "".join(entry(f"{name}_{d}_{s}", [CXX[d], CXX[s], CXX[s]], cases_of(name, d, s)) for name, d, s in CASES),
        "fused",
    )


@pytest.mark.parametrize(("name", "d", "s"), CASES)
def test_fused(fused: KernelFile, name: str, d: str, s: str) -> None:
    rng = np.random.default_rng(zlib.crc32(f"{name}{d}{s}".encode()))
    dst, src = np.dtype(d), np.dtype(s)
    reads_dst = name in READS_DST
    dtypes = (dst, src) if name == "Axpy" else (dst, src, src)

    def oracle(*operands: Array) -> Array:
        result = ORACLES[name](*operands)
        return narrow(d, result) if name.endswith("Cast") else result

    for call in calls(256 // max(dst.itemsize, src.itemsize), rng, (dst.itemsize, src.itemsize, src.itemsize)):
        check_call(fused, f"{name}_{d}_{s}", call, dtypes, oracle, rng, reads_dst=reads_dst)


def test_deq_relu_without_a_scale_is_reported(fused: KernelFile) -> None:
    text = """
extern "C" __global__ __aicore__ void unset(GM_ADDR image) {
    LocalTensor<half> d(TPosition::VECCALC, 0, 64);
    LocalTensor<int32_t> a(TPosition::VECCALC, 1024, 64);
    AddDeqRelu(d, a, a, 64);
}
"""
    run = kernels(text, "deq_unset").unset[1](np.zeros(32, np.uint8))
    assert "deq-scale-unset" in [r.code for r in run.trace.reports]

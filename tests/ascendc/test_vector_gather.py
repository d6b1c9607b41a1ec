"""Gather, Gatherb, GatherMask and (310P) Scatter against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_kernel import FRAME, Oracle, call, mistakes, random_of, ub_kernel
from toprope.kernel import KernelFile

CPP = {
    np.int16: "int16_t",
    np.uint16: "uint16_t",
    np.float16: "half",
    np.int32: "int32_t",
    np.uint32: "uint32_t",
    np.float32: "float",
}


def gathered(src: np.ndarray, offsets: np.ndarray, base: int = 0) -> np.ndarray:
    return src[(base + offsets.astype(np.int64)) // src.itemsize]


def kept(src: np.ndarray, bits: np.ndarray) -> np.ndarray:
    return src[bits]


FIXED = {1: (2, 0), 2: (2, 1), 3: (4, 0), 4: (4, 1), 5: (4, 2), 6: (4, 3), 7: (1, 0)}

ORACLES: dict[str, Oracle] = {
    "Gather": gathered,
    "Gatherb": lambda src, offsets: src.reshape(-1, 32 // src.itemsize)[offsets // 32].ravel(),
    "GatherMask": kept,
}


def text() -> str:
    out = FRAME
    for c in CPP.values():
        three = {"x": c, "o": "uint32_t", "y": c}
        out += ub_kernel(f"Gather_{c}", three, "Gather(y, x, o, base, (uint32_t)n);", ["base", "n"])
        out += ub_kernel(
            f"Gather_mask_{c}",
            three,
            "Gather(y, x, o, (uint32_t)base, mask, repeats, drs);",
            ["base", "mask", "repeats", "drs"],
        )
        pattern = "uint32_t" if c in ("int32_t", "uint32_t", "float") else "uint16_t"
        count = "c.SetValue(0, (uint32_t)kept);"
        tail = ["counted", "mask", "sbs", "repeats", "srs", "prs"]
        params = "counted != 0, mask, {(uint8_t)sbs, (uint16_t)repeats, (uint16_t)srs, (uint8_t)prs}, kept"
        out += ub_kernel(
            f"GatherMask_fixed_{c}",
            {"x": c, "y": c, "c": "uint32_t"},
            f"uint64_t kept = 0; GatherMask(y, x, (uint8_t)pattern, {params}); {count}",
            ["pattern", *tail],
        )
        out += ub_kernel(
            f"GatherMask_bits_{c}",
            {"x": c, "p": pattern, "y": c, "c": "uint32_t"},
            f"uint64_t kept = 0; GatherMask(y, x, p, {params}); {count}",
            tail,
        )
    for c in ("uint16_t", "uint32_t"):
        out += ub_kernel(
            f"Gatherb_{c}",
            {"x": c, "o": "uint32_t", "y": c},
            "GatherRepeatParams p{(uint8_t)dbs, (uint8_t)drs}; Gatherb(y, x, o, repeats, p);",
            ["repeats", "dbs", "drs"],
        )
    return out


@pytest.fixture(scope="module")
def compiled() -> KernelFile:
    return kernels(text(), "vector_gather")


@pytest.mark.parametrize("dtype", CPP)
def test_gather_by_offset(compiled: KernelFile, dtype: Any) -> None:
    size = np.dtype(dtype).itemsize
    for n in (1, 37, 256 // size, 700):
        x = random_of(dtype, 512, n)
        o = np.zeros(704, np.uint32)
        o[:n] = np.random.default_rng(n).integers(0, 448, n) * size
        y = np.zeros(704, dtype)
        run = call(compiled, f"Gather_{CPP[dtype]}", x, o, y, 64 * size, n)
        assert not mistakes(run)
        expected = np.zeros(704, dtype)
        expected[:n] = gathered(x, o[:n], 64 * size)
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_gather_with_mask_and_repeat_stride(compiled: KernelFile, dtype: Any) -> None:
    size, width = np.dtype(dtype).itemsize, 256 // np.dtype(dtype).itemsize
    x, o, y = (
        random_of(dtype, 256),
        np.arange(3 * width, dtype=np.uint32)[::-1] % 256 * size,
        np.full(width * 6, 7, dtype),
    )
    o = np.ascontiguousarray(o.astype(np.uint32))
    call(compiled, f"Gather_mask_{CPP[dtype]}", x, o, y, 0, width - 5, 3, 10)
    expected = np.full(width * 6, 7, dtype)
    for r in range(3):
        begin = r * 10 * 32 // size
        expected[begin : begin + width - 5] = gathered(x, o[r * width :][: width - 5])
    np.testing.assert_array_equal(y, expected)


def test_gather_out_of_range_names_the_offset_and_the_limit(compiled: KernelFile) -> None:
    x, y = random_of(np.float32, 64), np.zeros(64, np.float32)
    o = np.zeros(64, np.uint32)
    o[3] = 64 * 4
    run = call(compiled, "Gather_float", x, o, y, 0, 64)
    finding = next(f for f in run.findings if f.code == "gather-index-out-of-range")
    assert "offset 256 (element 3" in finding.message and "after 256 bytes" in finding.message
    o[3] = 63 * 4  # the near twin
    assert not mistakes(call(compiled, "Gather_float", x, o, y, 0, 64))
    o[3] = 2
    assert "misaligned-address" in mistakes(call(compiled, "Gather_float", x, o, y, 0, 64))


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
def test_gather_blocks(compiled: KernelFile, dtype: Any) -> None:
    per = 32 // np.dtype(dtype).itemsize
    x, y = random_of(dtype, 32 * per), np.zeros(64 * per, dtype)
    o = (np.random.default_rng(1).integers(0, 32, 24) * 32).astype(np.uint32)
    run = call(compiled, f"Gatherb_{CPP[dtype]}", x, o, y, 3, 2, 17)
    assert not mistakes(run)
    expected = np.zeros((64, per), dtype)
    for i, block in enumerate(ORACLES["Gatherb"](x, o).reshape(24, per)):
        expected[i // 8 * 17 + i % 8 * 2] = block
    np.testing.assert_array_equal(y.reshape(64, per), expected)


@pytest.mark.parametrize("dtype", CPP)
@pytest.mark.parametrize("pattern", FIXED)
def test_fixed_patterns(compiled: KernelFile, dtype: Any, pattern: int) -> None:
    width = 256 // np.dtype(dtype).itemsize
    step, first = FIXED[pattern]
    for counted, per_repeat in ((0, width), (1, 70), (1, width + 9)):
        x, y, c = random_of(dtype, 8 * width, pattern), np.zeros(8 * width, dtype), np.zeros(8, np.uint32)
        run = call(
            compiled,
            f"GatherMask_fixed_{CPP[dtype]}",
            x,
            y,
            c,
            pattern,
            counted,
            0 if not counted else per_repeat,
            1,
            3,
            16,
            0,
        )
        assert not mistakes(run)
        rows = np.concatenate([x[r * 2 * width :][:per_repeat][first::step] for r in range(3)])
        assert c[0] == rows.size
        np.testing.assert_array_equal(y[: rows.size], rows)
        assert not y[rows.size :].any()


@pytest.mark.parametrize("dtype", CPP)
def test_patterns_from_a_tensor(compiled: KernelFile, dtype: Any) -> None:
    size = np.dtype(dtype).itemsize
    width = 256 // size
    bits = np.random.default_rng(3).integers(0, 2, 8 * width).astype(bool)
    p = np.packbits(bits, bitorder="little")
    for counted, per_repeat, stride_blocks in ((0, width, 0), (1, 70, 1), (1, width + 9, 0)):
        x, y, c = random_of(dtype, 8 * width, 5), np.zeros(8 * width, dtype), np.zeros(8, np.uint32)
        run = call(
            compiled,
            f"GatherMask_bits_{CPP[dtype]}",
            x,
            np.resize(p, 128),
            y,
            c,
            counted,
            0 if not counted else per_repeat,
            1,
            3,
            16,
            stride_blocks,
        )
        assert not mistakes(run)
        parts = []
        for r in range(3):
            row = np.resize(bits, 1024)[stride_blocks * 256 * r :][:per_repeat]
            parts.append(kept(x[r * 2 * width :][:per_repeat], row))
        rows = np.concatenate(parts)
        assert c[0] == rows.size
        np.testing.assert_array_equal(y[: rows.size], rows)


def test_block_stride_of_the_source(compiled: KernelFile) -> None:
    x, y, c = random_of(np.float32, 256), np.zeros(256, np.float32), np.zeros(8, np.uint32)
    call(compiled, "GatherMask_fixed_float", x, y, c, 7, 0, 0, 2, 2, 3, 0)
    blocks = x.reshape(32, 8)
    np.testing.assert_array_equal(y[:128].reshape(16, 8), np.concatenate([blocks[0:16:2], blocks[3:19:2]]))


def test_an_unknown_pattern_is_a_finding(compiled: KernelFile) -> None:
    x, y, c = random_of(np.float32, 64), np.zeros(64, np.float32), np.zeros(8, np.uint32)
    assert "gather-mask-pattern" in mistakes(call(compiled, "GatherMask_fixed_float", x, y, c, 8, 0, 0, 1, 1, 8, 0))

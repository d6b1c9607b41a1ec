"""Products followed in float64: through every copy that reorders, to the line where the error of a matrix is born."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from toprope.cli import main
from toprope.precision.blame import diagnose
from toprope.precision.causes import Diagnosis
from toprope.precision.report import explained
from toprope.precision.shadow import Replay, replay

M, K, N, P = 20, 24, 40, 32  # y [m, p] = (a [m, k] x b [k, n]) x c [n, p], or the like; all but p have tails
TEXT = """
constexpr uint32_t M = 20, K = 24, N = 40, P = 32;
template <typename T> constexpr uint32_t C0 = 32 / sizeof(T);
__aicore__ constexpr uint32_t up(uint32_t x, uint32_t to) { return (x + to - 1) / to * to; }
template <TPosition p, typename T> __aicore__ inline LocalTensor<T> at(uint32_t address, uint32_t count) { return LocalTensor<T>(p, address, count); }
#define ORDER PipeBarrier<PIPE_ALL>();

struct Cube {
    // A row-major matrix of GM, as NZ in L1.
    template <typename T> __aicore__ inline void nz(const LocalTensor<T>& to, __gm__ uint8_t* from, uint32_t rows, uint32_t columns) {
        GlobalTensor<T> g; g.SetGlobalBuffer((__gm__ T*)from, rows * columns);
        Nd2NzParams p; p.ndNum = 1; p.nValue = rows; p.dValue = columns; p.srcDValue = columns; p.dstNzC0Stride = up(rows, 16); p.dstNzNStride = 1;
        DataCopy(to, g, p); ORDER
    }
    template <typename T> __aicore__ inline void left(const LocalTensor<T>& to, const LocalTensor<T>& from, uint32_t rows, uint32_t columns) {
        LoadData2DParams p; p.repeatTimes = up(columns, C0<T>) / C0<T>; p.srcStride = up(rows, 16) / 16;
        for (uint32_t i = 0; i < up(rows, 16) / 16; i++) LoadData(to[i * p.repeatTimes * 16 * C0<T>], from[i * 16 * C0<T>], p);
        ORDER
    }
    __aicore__ inline void right(const LocalTensor<half>& to, const LocalTensor<half>& from, uint32_t rows, uint32_t columns) {
        LoadData2DParams p; p.repeatTimes = up(columns, 16) / 16; p.srcStride = up(rows, 16) / 16; p.ifTranspose = true;
        for (uint32_t i = 0; i < up(rows, 16) / 16; i++) LoadData(to[i * p.repeatTimes * 256], from[i * 256], p);
        ORDER
    }
    // 16 rows: squares of 16 x 16, each two fractals of 16 x 8 that follow each other in L1
    __aicore__ inline void right(const LocalTensor<float>& to, const LocalTensor<float>& from, uint32_t columns) {
        LoadData2dTransposeParams p; p.repeatTimes = columns / 16; p.srcStride = 1; p.dstGap = 0; p.dstFracGap = columns / 16 - 1;
        LoadDataWithTranspose(to, from, p); ORDER
    }
    template <typename T> __aicore__ inline void multiply(uint32_t m, uint32_t n, uint32_t k, const LocalTensor<T>& a, const LocalTensor<T>& b, bool first = true) {
        MmadParams p; p.m = m; p.n = n; p.k = k; p.cmatrixInitVal = first;
        Mmad(c, a, b, p); ORDER
    }
    LocalTensor<float> c = at<TPosition::CO1, float>(0, 64 * 64);
    LocalTensor<half> a1 = at<TPosition::A1, half>(0, 4096), b1 = at<TPosition::B1, half>(16384, 4096), t1 = at<TPosition::A1, half>(32768, 4096);
    LocalTensor<half> a2 = at<TPosition::A2, half>(0, 4096), b2 = at<TPosition::B2, half>(0, 4096);
    __aicore__ inline void first_product(GM_ADDR a, GM_ADDR b) {
        nz(a1, a, M, K); nz(b1, b, K, N); left(a2, a1, M, K); right(b2, b1, K, N); multiply(M, N, K, a2, b2);
    }
    __aicore__ inline FixpipeParamsV220 out(uint32_t m, uint32_t n, uint32_t stride) {
        FixpipeParamsV220 p; p.nSize = n; p.mSize = m; p.srcStride = up(m, 16); p.dstStride = stride; return p;
    }
};
#define BEGIN KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY); Cube q; \\
    GlobalTensor<float> out; out.SetGlobalBuffer((__gm__ float*)y, 4096); GlobalTensor<half> middle; middle.SetGlobalBuffer((__gm__ half*)t, 4096);

KERNEL(one) { BEGIN  // the whole sum in float
    q.first_product(a, b);
    Fixpipe(out, q.c, q.out(M, N, N));
}
KERNEL(biased) { BEGIN  // y = a x b + c, c being one row
    GlobalTensor<float> row; row.SetGlobalBuffer((__gm__ float*)c, 48);
    auto bias1 = at<TPosition::A1, float>(65536, 64); auto bias2 = at<TPosition::C2, float>(0, 64);
    DataCopy(bias1, row, 48); ORDER
    DataCopy(bias2, bias1, 64); ORDER
    q.nz(q.a1, a, M, K); q.nz(q.b1, b, K, N); q.left(q.a2, q.a1, M, K); q.right(q.b2, q.b1, K, N);
    MmadParams p; p.m = M; p.n = N; p.k = K; p.cmatrixInitVal = false; p.isBias = true;
    Mmad(q.c, q.a2, q.b2, bias2, p); ORDER
    Fixpipe(out, q.c, q.out(M, N, N));
}
KERNEL(half_left) { BEGIN  // the first product is narrowed on its way to L1 and becomes the left operand
    q.first_product(a, b);
    FixpipeParamsV220 p = q.out(M, N, 32); p.quantPre = F322F16;
    Fixpipe(q.t1, q.c, p); ORDER  // BORN half_left
    q.nz(q.b1, c, N, P); q.left(q.a2, q.t1, M, N); q.right(q.b2, q.b1, N, P); q.multiply(M, P, N, q.a2, q.b2);
    Fixpipe(out, q.c, q.out(M, P, P));
}
KERNEL(half_image) { BEGIN  // the same, scaled, without what is negative; loaded as an image of one row
    q.first_product(a, b);
    FixpipeParamsV220 p = q.out(M, N, 32); p.quantPre = DEQF16; p.deqScalar = 0x3f000000; p.reluEn = true;
    Fixpipe(q.t1, q.c, p); ORDER  // BORN half_image
    LoadData3DParamsV2<half> load; load.l1H = 1; load.l1W = 32; load.channelSize = 48; load.mExtension = 32; load.kExtension = 48;
    LoadData(q.a2, q.t1, load); ORDER
    q.nz(q.b1, c, N, P); q.right(q.b2, q.b1, N, P); q.multiply(M, P, N, q.a2, q.b2);
    Fixpipe(out, q.c, q.out(M, P, P));
}
KERNEL(half_right) { BEGIN  // y [k, n] = b [k, m as its rows...]: the first product goes through GM and becomes the right operand
    q.first_product(a, b);
    FixpipeParamsV220 p = q.out(M, N, N); p.quantPre = F322F16;
    Fixpipe(middle, q.c, p); ORDER  // BORN half_right
    q.nz(q.a1, c, P, M); q.nz(q.b1, t, M, N); q.left(q.a2, q.a1, P, M); q.right(q.b2, q.b1, M, N); q.multiply(P, N, M, q.a2, q.b2);
    Fixpipe(out, q.c, q.out(P, N, N));
}
KERNEL(added) { BEGIN  // two blocks add the same product to GM
    q.first_product(a, b);
    SetAtomicAdd<float>();
    Fixpipe(out, q.c, q.out(M, N, N));
    SetAtomicNone();
}
KERNEL(rounded) { BEGIN  // float operands, 32 x 16 and 16 x 32, rounded to HF32
    auto a1 = at<TPosition::A1, float>(0, 512), b1 = at<TPosition::B1, float>(16384, 512);
    auto a2 = at<TPosition::A2, float>(0, 512), b2 = at<TPosition::B2, float>(0, 512);
    q.nz(a1, a, 32, 16); q.nz(b1, b, 16, 32); q.left(a2, a1, 32, 16); q.right(b2, b1, 32);
    SetHF32Mode(true);
    MmadParams p; p.m = 32; p.n = 32; p.k = 16; p.cmatrixInitVal = true;
    Mmad(q.c, a2, b2, p); ORDER  // BORN rounded
    SetHF32Mode(false);
    Fixpipe(out, q.c, q.out(32, 32, 32));
}
"""
FILE = kernels(
    re.sub(
        r"KERNEL\((\w+)\)",
        r'extern "C" __global__ __aicore__ void \1(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR t, GM_ADDR y)',
        TEXT,
    ),
    "bisect_cube",
)


@pytest.fixture
def rng() -> np.random.Generator:
    """Every test draws from the beginning of its own generator, whichever ran before it."""
    return np.random.default_rng(3)


def line_of(word: str) -> int:
    """The line of the compiled file that carries this marker."""
    return next(i for i, text in enumerate(FILE.path.read_text().splitlines(), 1) if text.endswith("// " + word))


def bisect(name: str, a: Any, b: Any, c: Any, shape: tuple[int, int], blocks: int = 1) -> tuple[Diagnosis, Replay, Any]:
    arrays = {"a": a, "b": b, "c": c, "t": np.zeros((M, N), np.float16), "y": np.zeros(shape, np.float32)}
    before = {n: v.copy() for n, v in arrays.items()}
    run = FILE[name][blocks](*arrays.values(), capture_limit_bytes=1 << 28)
    assert not [str(f) for f in run.findings if f.severity == "error"]
    replayed = replay(run.trace, run.soc, before)
    assert not replayed.unknown
    return diagnose(replayed, arrays), replayed, replayed.exact("y", arrays["y"])


def halves(rng: np.random.Generator, *shape: int) -> Any:
    """Eighths: exact in half, and so few values that products hold equal numbers with different errors."""
    return (rng.integers(-8, 9, shape) / 8).astype(np.float16)


def thirds(rng: np.random.Generator, *shape: int) -> Any:
    return (rng.integers(1, 9, shape) / 3).astype(np.float16)


def wide(x: Any) -> Any:
    return x.astype(np.float64)


def test_float_sums_of_halves_are_clean(rng: np.random.Generator) -> None:
    a, b = rng.normal(0, 1, (M, K)).astype(np.float16), rng.normal(0, 1, (K, N)).astype(np.float16)
    d, replayed, exact = bisect("one", a, b, halves(rng, N, P), (M, N))
    assert d.clean
    assert np.allclose(exact, wide(a) @ wide(b), rtol=0, atol=1e-14)
    assert {e.op for e in replayed.lines.values()} == {"Mmad"}  # the rest moves elements and is followed one by one
    assert all(s.groups is None for s in replayed.steps)


def test_a_bias_is_part_of_the_sum(rng: np.random.Generator) -> None:
    a, b, c = thirds(rng, M, K), thirds(rng, K, N), rng.normal(0, 1, 48).astype(np.float32)
    d, _, exact = bisect("biased", a, b, c, (M, N))
    assert d.clean and np.allclose(exact, wide(a) @ wide(b) + wide(c[:N]), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["half_left", "half_image", "half_right"])
def test_a_product_that_is_narrowed_before_the_next_one_is_an_early_cast(rng: np.random.Generator, name: str) -> None:
    a, b = thirds(rng, M, K), thirds(rng, K, N)
    product = wide(a) @ wide(b)
    c = halves(rng, P, M) if name == "half_right" else halves(rng, N, P)
    golden = {
        "half_left": lambda: product @ wide(c),
        "half_image": lambda: 0.5 * np.maximum(product, 0) @ wide(c),
        "half_right": lambda: wide(c) @ product,
    }[name]()
    d, replayed, exact = bisect(name, a, b, c, golden.shape)
    assert np.allclose(exact, golden, rtol=0, atol=1e-11 * np.abs(golden).max())  # every error at its own element
    assert d.cause == "early-cast" and not d.clean
    assert d.born is not None and d.born.step.op == "Fixpipe"
    assert replayed.trace.sites[d.born.step.site].line == line_of(f"BORN {name}")
    assert d.shares[d.born.step.site] > 0.99


def test_sums_of_several_blocks_in_gm_are_followed(rng: np.random.Generator) -> None:
    a, b = thirds(rng, M, K), thirds(rng, K, N)
    d, _, exact = bisect("added", a, b, halves(rng, N, P), (M, N), blocks=2)
    assert d.clean and np.allclose(exact, 2 * (wide(a) @ wide(b)), rtol=1e-15)


def test_operands_rounded_to_hf32_are_named(rng: np.random.Generator) -> None:
    a, b = rng.uniform(1, 2, (32, 16)).astype(np.float32), rng.uniform(1, 2, (16, 32)).astype(np.float32)
    d, replayed, exact = bisect("rounded", a, b, halves(rng, N, P), (32, 32))
    assert np.allclose(exact, wide(a) @ wide(b), rtol=1e-15)
    assert d.cause == "hf32" and d.born is not None
    assert replayed.trace.sites[d.born.step.site].line == line_of("BORN rounded")
    assert "SetHF32Mode(false)" in explained(d)[1]


COUPLED = """
template <typename T> GlobalTensor<T> gm(GM_ADDR at) { GlobalTensor<T> g; g.SetGlobalBuffer((__gm__ T*)at); return g; }
// y = relu(a x b) * 3, a [16, 512] and b [512, 16] in fractals already; the sum and the result in type T of L0C.
template <typename T> __aicore__ inline void product(GM_ADDR a, GM_ADDR b, GM_ADDR y) {
    LocalTensor<half> a1(TPosition::A1, 0, 8192), b1(TPosition::B1, 32768, 8192), a2(TPosition::A2, 0, 8192), b2(TPosition::B2, 0, 8192);
    LocalTensor<T> c(TPosition::CO1, 0, 256); LocalTensor<half> h(TPosition::CO2, 0, 256); LocalTensor<float> f(TPosition::VECCALC, 4096, 256);
    DataCopy(a1, gm<half>(a), 8192); DataCopy(b1, gm<half>(b), 8192); PipeBarrier<PIPE_ALL>();
    LoadData2DParams p; p.repeatTimes = 32; p.srcStride = 1; LoadData(a2, a1, p); LoadData(b2, b1, p); PipeBarrier<PIPE_ALL>();
    for (int i = 0; i < 32; i++) {
        MmadParams m; m.m = 16; m.n = 16; m.k = 16; m.cmatrixInitVal = i == 0;
        Mmad(c, a2[i * 256], b2[i * 256], m);  // BORN half_sum
        PipeBarrier<PIPE_ALL>();
    }
    DataCopyEnhancedParams e; e.blockMode = BlockMode::BLOCK_MODE_MATRIX; e.isRelu = true;
    DataCopy(h, c, DataCopyParams(1, 1, 0, 0), e);  // BORN narrowed
    PipeBarrier<PIPE_ALL>();
    Cast(f, h, RoundMode::CAST_NONE, 256); PipeBarrier<PIPE_ALL>();
    Muls(f, f, 3.0f, 256); PipeBarrier<PIPE_ALL>();
    DataCopy(gm<float>(y), f, 256);
}
extern "C" __global__ __aicore__ void half_sum(GM_ADDR a, GM_ADDR b, GM_ADDR y) { product<half>(a, b, y); }
extern "C" __global__ __aicore__ void narrowed(GM_ADDR a, GM_ADDR b, GM_ADDR y) { product<float>(a, b, y); }
"""


@pytest.mark.parametrize(("name", "cause"), [("half_sum", "accumulation"), ("narrowed", "early-cast")])
def test_the_coupled_core_sums_in_half_and_narrows_on_the_way_to_ub(
    rng: np.random.Generator, name: str, cause: str
) -> None:
    file = kernels(COUPLED, "bisect_coupled")
    a, b, y = (
        rng.uniform(0, 1, 8192).astype(np.float16),
        rng.uniform(-0.2, 1, 8192).astype(np.float16),
        np.zeros((16, 16), np.float32),
    )
    before = {"a": a.copy(), "b": b.copy(), "y": y.copy()}
    run = file[name][1](a, b, y, soc="ascend310p3", capture_limit_bytes=1 << 26)
    assert not [str(f) for f in run.findings if f.severity == "error"]
    replayed = replay(run.trace, run.soc, before)
    d = diagnose(replayed, {"a": a, "b": b, "y": y})
    left = (
        wide(a).reshape(32, 16, 16).transpose(1, 0, 2).reshape(16, 512)
    )  # fractals of A side by side, those of B turned
    right = wide(b).reshape(32, 16, 16).transpose(0, 2, 1).reshape(512, 16)
    assert np.allclose(replayed.exact("y", y), 3 * np.maximum(left @ right, 0), rtol=1e-13)
    assert not replayed.unknown and d.cause == cause and d.born is not None
    source = file.path.read_text().splitlines()[replayed.trace.sites[d.born.step.site].line - 1]
    assert source.endswith(f"// BORN {name}")


ROOT = Path(__file__).parents[2]
SMALL = {
    "examples/07_matmul/matmul_custom.cpp": ["m=128", "n=256", "k=128"],
    "toprope/ops/matmul/op_kernel/matmul.cpp:matmul": [
        "tiling={ m = 128, n = 256, k = 128, partsM = 1, partsN = 2, bandTiles = 1, keepEvery = 0 }"
    ],
}


@pytest.mark.parametrize("kernel", SMALL)
def test_kernels_with_float_sums_are_clean_and_compute_what_they_should(
    kernel: str, capfd: pytest.CaptureFixture[str]
) -> None:
    out = "float" if "examples" in kernel else "half"
    shapes = ["a=half[128, 128]", "b=half[128, 256]", f"c={out}[128, 256] out"]
    assert main(["bisect-precision", str(ROOT / kernel), "--blocks", "2", *shapes, *SMALL[kernel], "--json"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert report["clean"] and not report["not_followed"]
    assert report["cause"] == ("float-sum" if out == "float" else "clean")
    assert report["shadow_against_reference"]["c"] < 1e-12
    assert any(line["operation"] == "Mmad" and 0 < line["added"] < 1e-6 for line in report["lines"])

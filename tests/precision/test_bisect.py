"""Kernels whose error is born on a known line, for a known reason; and the two values of every kind of step."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from toprope.cli import main
from toprope.precision.blame import diagnose
from toprope.precision.causes import CAUSES, Diagnosis
from toprope.precision.semantics import EXACT, LANES, MOVES, SUMS
from toprope.precision.shadow import Replay, replay

FRAME = """
template <typename T> struct Frame {
    TPipe pipe; TBuf<TPosition::VECCALC> buf; GlobalTensor<T> x, y; LocalTensor<uint8_t> all; uint32_t at = 0;
    __aicore__ inline Frame(GM_ADDR a, GM_ADDR b, uint32_t n, uint32_t m) {
        x.SetGlobalBuffer((__gm__ T*)a, n); y.SetGlobalBuffer((__gm__ T*)b, m);
        pipe.InitBuffer(buf, 131072); all = buf.Get<uint8_t>();
    }
    template <typename U> __aicore__ inline LocalTensor<U> take(uint32_t n) {
        auto t = all[at].template ReinterpretCast<U>(); at += (n * sizeof(U) + 31) / 32 * 32; t.SetSize(n); return t;
    }
};
#define IN SetFlag<HardEvent::MTE2_V>(EVENT_ID0); WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
#define OUT SetFlag<HardEvent::V_MTE3>(EVENT_ID0); WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
"""
BODIES = """
KERNEL(half_sum) {
    Frame<half> f(x, y, 64 * 128, 128); auto v = f.take<half>(64 * 128), s = f.take<half>(128);
    DataCopy(v, f.x, 64 * 128); IN
    Duplicate(s, half(0.0f), 128);
    for (int i = 0; i < 64; i++)
        Add(s, s, v[i * 128], 128);  // BORN half_sum
    OUT DataCopy(f.y, s, 128);
}
KERNEL(half_tree) {
    Frame<half> f(x, y, 64 * 128, 64); auto v = f.take<half>(64 * 128), s = f.take<half>(64);
    DataCopy(v, f.x, 64 * 128); IN
    WholeReduceSum(s, v, 128, 64, 1, 1, 8);  // BORN half_tree
    OUT DataCopy(f.y, s, 64);
}
KERNEL(cancels) {
    Frame<float> f(x, y, 512, 512); auto v = f.take<float>(512);
    DataCopy(v, f.x, 512); IN
    Adds(v, v, 100000.0f, 512);  // BORN cancels
    Adds(v, v, -100000.0f, 512);  // GROWN cancels
    OUT DataCopy(f.y, v, 512);
}
KERNEL(early) {
    Frame<float> f(x, y, 512, 512); auto v = f.take<float>(512); auto h = f.take<half>(512);
    DataCopy(v, f.x, 512); IN
    Cast(h, v, RoundMode::CAST_NONE, 512);  // BORN early
    Cast(v, h, RoundMode::CAST_NONE, 512);
    Muls(v, v, 3.0f, 512);
    OUT DataCopy(f.y, v, 512);
}
KERNEL(softmax_naive) {
    Frame<half> f(x, y, 512, 512); auto v = f.take<half>(512), e = f.take<half>(512);
    auto w = f.take<float>(512), sum = f.take<float>(64), work = f.take<float>(512);
    DataCopy(v, f.x, 512); IN
    Exp(e, v, 512);  // BORN softmax_naive
    Cast(w, e, RoundMode::CAST_NONE, 512);
    ReduceSum(sum, w, work, 512);
    Muls(w, w, 1.0f / sum.GetValue(0), 512);
    Cast(e, w, RoundMode::CAST_NONE, 512);
    OUT DataCopy(f.y, e, 512);
}
KERNEL(truncates) {
    Frame<float> f(x, y, 512, 512); auto w = f.take<float>(512); auto b = f.take<bfloat16_t>(512);
    DataCopy(w, f.x, 512); IN
    Cast(b, w, RoundMode::CAST_TRUNC, 512);  // BORN truncates
    Cast(w, b, RoundMode::CAST_NONE, 512);
    OUT DataCopy(f.y, w, 512);
}
KERNEL(exp_of_large) {
    Frame<half> f(x, y, 512, 512); auto v = f.take<half>(512);
    DataCopy(v, f.x, 512); IN
    Muls(v, v, half(7.7f), 512);  // BORN exp_of_large
    Exp(v, v, 512);  // GROWN exp_of_large
    OUT DataCopy(f.y, v, 512);
}
KERNEL(divides) {
    Frame<half> f(x, y, 512, 512); auto v = f.take<half>(512), s = f.take<half>(512);
    DataCopy(v, f.x, 512); IN
    Muls(s, v, half(0.00001f), 512);
    Reciprocal(v, s, 512);  // BORN divides
    OUT DataCopy(f.y, v, 512);
}
KERNEL(clean) {
    Frame<float> f(x, y, 512, 512); auto v = f.take<float>(512), s = f.take<float>(512);
    DataCopy(v, f.x, 512); IN
    Mul(s, v, v, 512); Adds(s, s, 1.0f, 512); Sqrt(s, s, 512);
    OUT DataCopy(f.y, s, 512);
}
KERNEL(through_scalar) {  // the error of the half sum reaches the output only through the scalar unit
    Frame<float> f(x, y, 512, 512); auto v = f.take<float>(512), w = f.take<float>(64); auto h = f.take<half>(512), s = f.take<half>(16);
    auto work = f.take<half>(512);
    DataCopy(v, f.x, 512); IN
    Cast(h, v, RoundMode::CAST_NONE, 512);
    ReduceSum(s, h, work, 512);  // BORN through_scalar
    Cast(w, s, RoundMode::CAST_NONE, 1);
    SetFlag<HardEvent::V_S>(EVENT_ID0); WaitFlag<HardEvent::V_S>(EVENT_ID0);
    Muls(v, v, w.GetValue(0), 512);
    OUT DataCopy(f.y, v, 512);
}
KERNEL(atomic_sum) {  // every core adds its row to the same 128 halves of GM
    Frame<half> f(x, y, 32 * 128, 128); auto v = f.take<half>(128);
    DataCopy(v, f.x[GetBlockIdx() * 128], 128);
    SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0); WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
    SetAtomicAdd<half>();
    DataCopy(f.y, v, 128);  // BORN atomic_sum
    SetAtomicNone();
}
KERNEL(not_followed) {
    Frame<half> f(x, y, 512, 512); auto v = f.take<half>(512), s = f.take<half>(512); auto i = f.take<int32_t>(512);
    DataCopy(v, f.x, 512); IN
    Cast(i, v, RoundMode::CAST_RINT, 512);
    SetDeqScale(half(0.5f)); AddDeqRelu(s, i, i, 512);
    OUT DataCopy(f.y, s, 512);
}
"""
TEXT = FRAME + re.sub(r"KERNEL\((\w+)\)", r'extern "C" __global__ __aicore__ void \1(GM_ADDR x, GM_ADDR y)', BODIES)
FILE = kernels(TEXT, "bisect")


def line_of(word: str) -> int:
    """The line of the compiled file that carries this marker."""
    return next(i for i, text in enumerate(FILE.path.read_text().splitlines(), 1) if text.endswith("// " + word))


def bisect(name: str, x: np.ndarray[Any, Any], out: int, dtype: Any, blocks: int = 1) -> tuple[Diagnosis, Replay]:
    y = np.zeros(out, dtype)
    before = {"x": x.copy(), "y": y.copy()}
    run = FILE[name][blocks](x, y, capture_limit_bytes=1 << 28)
    replayed = replay(run.trace, run.soc, before)
    return diagnose(replayed, {"x": x, "y": y}), replayed


def draw(kind: str, *arguments: Any) -> Any:
    """The same numbers whichever test asks first: each call has a generator of its own."""
    return getattr(np.random.default_rng(7), kind)(*arguments)


UNIFORM = draw("uniform", 0, 1, 512).astype(np.float32)
CASES = [
    ("half_sum", "accumulation", draw("uniform", 0, 1, (64, 128)).astype(np.float16), 128, np.float16),
    ("half_tree", "accumulation", draw("normal", 0, 4, (64, 128)).astype(np.float16), 64, np.float16),
    ("cancels", "cancellation", UNIFORM, 512, np.float32),
    ("early", "early-cast", UNIFORM, 512, np.float32),
    ("softmax_naive", "exp-overflow", draw("normal", 0, 6, 512).astype(np.float16), 512, np.float16),
    ("truncates", "rounding-mode", UNIFORM, 512, np.float32),
    ("exp_of_large", "exp-amplifies", UNIFORM.astype(np.float16), 512, np.float16),
    ("divides", "division-by-small", UNIFORM.astype(np.float16) + np.float16(0.5), 512, np.float16),
    ("through_scalar", "accumulation", UNIFORM, 512, np.float32),
]


@pytest.mark.parametrize(("name", "cause", "x", "out", "dtype"), CASES, ids=[c[0] for c in CASES])
def test_the_line_and_the_cause_are_named(name: str, cause: str, x: Any, out: int, dtype: Any) -> None:
    d, replayed = bisect(name, x, out, dtype)
    sites = replayed.trace.sites
    assert d.cause == cause
    assert d.born is not None and sites[d.born.step.site].line == line_of(f"BORN {name}")
    if f"GROWN {name}" in TEXT:
        assert d.grown is not None and sites[d.grown.step.site].line == line_of(f"GROWN {name}")
    assert not replayed.unknown


def test_atomic_additions_of_many_cores_are_followed_in_their_order() -> None:
    # Around 0.7 all partial sums are rounded the same way: 2 ulps, well above the 1.5 that count as clean. Uniform numbers from 0 to 1 end
    # between 1.5 and 2.4 ulps, on either side of that limit as the generator's state has it.
    x = draw("uniform", 0.69, 0.71, (32, 128)).astype(np.float16)
    d, replayed = bisect("atomic_sum", x, 128, np.float16, blocks=32)
    assert np.allclose(replayed.exact("y", np.zeros(128, np.float16)), x.astype(np.float64).sum(0), rtol=1e-15)
    assert d.cause == "accumulation" and d.born is not None and d.times > 10
    assert replayed.trace.sites[d.born.step.site].line == line_of("BORN atomic_sum")


def test_a_clean_kernel_has_no_birth() -> None:
    d, replayed = bisect("clean", UNIFORM * 4, 512, np.float32)
    assert d.cause == "clean" and d.born is None
    assert d.outputs[0].worst_ulps <= 2
    assert all(line.worst < 2.0**-22 for line in replayed.lines.values())


def test_the_shadow_is_float64_arithmetic() -> None:
    x = draw("uniform", 0, 1, (64, 128)).astype(np.float16)
    _, replayed = bisect("half_sum", x, 128, np.float16)
    assert np.allclose(replayed.exact("y", np.zeros(128, np.float16)), x.astype(np.float64).sum(0), rtol=1e-15)


def test_an_operation_without_semantics_is_reported_by_name() -> None:
    d, replayed = bisect("not_followed", UNIFORM.astype(np.float16), 512, np.float16)
    assert replayed.unknown == {"AddDeqRelu": 1}
    assert d.cause == "clean"  # what it wrote counts as exact, and the report says so


def test_a_run_without_values_says_what_to_do() -> None:
    y = np.zeros(512, np.float32)
    run = FILE["clean"][1](UNIFORM.copy(), y)
    assert run.trace.values is None
    with pytest.raises(ValueError, match="capture_limit_bytes"):
        replay(run.trace, run.soc, {})


def test_capturing_changes_nothing_and_stops_at_its_limit() -> None:
    plain, kept = np.zeros(512, np.float32), np.zeros(512, np.float32)
    bare = FILE["clean"][1](UNIFORM.copy(), plain).trace
    full = FILE["clean"][1](UNIFORM.copy(), kept, capture_limit_bytes=1 << 20).trace
    assert np.array_equal(plain, kept) and np.array_equal(bare.instrs, full.instrs)
    assert np.array_equal(bare.accesses, full.accesses)
    assert full.values is not None and full.values.complete and len(full.values.bytes) >= 5 * 2048
    short = FILE["clean"][1](UNIFORM.copy(), kept, capture_limit_bytes=1000).trace.values
    assert short is not None and not short.complete and len(short.bytes) <= 1000 + 2048


def test_no_operation_has_two_meanings() -> None:
    tables: list[set[str]] = [set(LANES), set(SUMS), MOVES, EXACT]
    assert len(set().union(*tables)) == sum(map(len, tables))
    assert all(meaning and change for meaning, change in CAUSES.values())


@pytest.fixture
def launched(tmp_path: Path) -> Iterator[str]:
    copy = tmp_path / "kernels.cpp"
    copy.write_text(FILE.path.read_text())
    yield f"{copy}:half_sum"


def test_the_verb(launched: str, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = [launched, "x=half[64, 128] uniform(0, 1)", "y=half[128] out", "--reference", "y=x.sum(0)"]
    assert main(["bisect-precision", *arguments]) == 1
    first = capfd.readouterr().out.splitlines()
    assert "accumulation" in first[0] and f":{line_of('BORN half_sum')}" in first[1] and "Add(s, s, v" in first[1]
    assert any("the error is rounding, not the algorithm" in line for line in first)
    assert main(["bisect-precision", *arguments, "--json"]) == 1
    report = json.loads(capfd.readouterr().out)
    assert report["cause"] == "accumulation" and report["born"]["line"] == line_of("BORN half_sum")
    assert report["times"] > 50 and report["lines"][0]["share"] > 0.99
    wrong = [*arguments[:-1], "y=2 * x.sum(0)", "--json"]
    assert main(["bisect-precision", *wrong]) == 1
    assert json.loads(capfd.readouterr().out)["shadow_against_reference"]["y"] == pytest.approx(0.5)

"""`toprope calibrate`: a chip corrected from a profiler's folder, kept as a chip file that every command knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toprope import cli, load, soc
from toprope.timing import predict

pytestmark = pytest.mark.compiler

KERNEL = """
#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void scale(GM_ADDR x, GM_ADDR y, uint32_t n) {
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 2, 16384);
    pipe.InitBuffer(out, 2, 16384);
    GlobalTensor<float> from, to;
    const uint32_t share = n / GetBlockNum();
    from.SetGlobalBuffer((__gm__ float*)x + share * GetBlockIdx(), share);
    to.SetGlobalBuffer((__gm__ float*)y + share * GetBlockIdx(), share);
    for (uint32_t at = 0; at < share; at += 4096) {
        LocalTensor<float> a = in.AllocTensor<float>();
        DataCopy(a, from[at], 4096);
        in.EnQue(a);
        a = in.DeQue<float>();
        LocalTensor<float> b = out.AllocTensor<float>();
        Muls(b, a, 2.0f, 4096);
        out.EnQue(b);
        in.FreeTensor(a);
        b = out.DeQue<float>();
        DataCopy(to[at], b, 4096);
        out.FreeTensor(b);
    }
}
"""


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel in two sizes, and what a device with slower launching and slower HBM would have been measured at."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    import numpy as np

    device = soc.load("ascend910b2").replaced({"launch.fixed_us": 3.0, "hbm.read_tbps": 1.0, "prologue.cycles": 2500.0})
    rows = ["Op Name,OP Type,Block Dim,Task Duration(us)"]
    for name, n in (("small", 48 * 4096), ("large", 48 * 4096 * 64)):
        (tmp_path / f"{name}.cpp").write_text(KERNEL.replace("void scale", f"void {name}"))
        (tmp_path / f"{name}.toml").write_text(
            f"[{name}]\nblocks = 48\n[{name}.arguments]\nx = 'float[{n}] zeros'\ny = 'float[{n}] out'\nn = {n}\n"
        )
        kernel = load(tmp_path / f"{name}.cpp")[name]
        x = np.zeros(n, np.float32)
        run = kernel[48](x, np.zeros_like(x), n, soc="ascend910b2", time_only=True)
        us = predict(run.trace, device, l2="cold").microseconds
        rows += [f"{name},{name},48,{us * share:.3f}" for share in (0.99, 1.0, 1.01)]
    folder = tmp_path / "PROF_1" / "mindstudio_profiler_output"
    folder.mkdir(parents=True)
    (folder / "op_summary_1.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


def test_errors_fall_and_the_chip_is_known_everywhere(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["calibrate", str(measured / "PROF_1"), str(measured / "small.cpp"), str(measured / "large.cpp")]
    assert cli.main([*argv, "--soc", "ascend910b2", "--name", "ours", "--l2", "cold", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    before, after = ([abs(e) for e in said[when].values()] for when in ("before", "after"))
    assert max(before) > 0.2 and max(after) < 0.1
    assert said["factors"]["HBM read rate"] < 0.9
    assert "ours" in soc.names()
    ours = soc.load("ours")
    assert ours.number("hbm.read_tbps") == pytest.approx(
        soc.load("ascend910b2").number("hbm.read_tbps") * said["factors"]["HBM read rate"], rel=1e-3
    )
    assert ours.kind_of("launch.fixed_us") == "measured" and "small" not in ours.name
    assert ours.cost("scalar_load").fixed > 0 and ours.aiv == 48
    assert cli.main([*argv, "--name", "ours"]) == 2, "a chip of that name exists"


def test_what_was_not_measured_is_an_error(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = measured / "other.cpp"
    other.write_text(KERNEL.replace("void scale", "void other"))
    assert cli.main(["calibrate", str(measured / "PROF_1"), str(other)]) == 2
    assert "no operator of the measurement is other" in capsys.readouterr().err
    (measured / "empty").mkdir()
    assert cli.main(["calibrate", str(measured / "empty"), str(other)]) == 2

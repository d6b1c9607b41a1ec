"""--explore: every race is run in the order that it allows; a kernel without races gives the same bytes in every order of its cores."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import toprope
from tests.check.pages import FOLDER, Case, cases, compiled
from toprope.cli import main
from toprope.kernel import Run

PAGES = ("races_between_pipes", "races_inside_a_pipe", "races_between_cores", "scalar_cache")
CASES = [case for page in PAGES for case in cases(FOLDER / f"{page}.md")]
# Racy kernels whose wrong order cannot be seen in the numbers, and why.
SAME_BYTES = {"reads_back": "x and workspace begin equal", "ranges_overlap": "both cores write the same values",
              "reads_the_old_line": "the copy writes what was there"}  # fmt: skip
NOT_AN_OUTPUT = {"looks_once_at_the_old_line": "the value is only compared"}


def explored(case: Case) -> Run:
    return compiled(case)[case.name][case.blocks](
        *case.values(),
        soc=case.options.get("soc", "ascend910b1"),
        sync=case.options.get("sync", "auto"),
        time_limit_s=20.0,
        explore=True,
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_race_shows_its_number_and_a_clean_twin_does_not_change(case: Case) -> None:
    run = explored(case)
    told = [f for f in run.findings if f.code.startswith("race-")]
    outcomes = [f.outcome for f in told]
    assert all(outcomes), "every race is explored"
    assert not any(f.code == "core-order-changes-result" for f in run.findings)
    if told and case.name in SAME_BYTES:
        assert "the two orders give the same" in outcomes[0]
    elif told and case.name in NOT_AN_OUTPUT:
        assert "reach no output" in outcomes[0]
    elif told:
        assert all(re.search(r"\w+\[\d+\] is \S+ instead of \S+ \(\d+ of \d+ elements differ\)$", o) for o in outcomes)


def test_the_run_itself_is_in_program_order() -> None:
    case = next(c for c in CASES if c.name == "no_way_back")
    plain, run = compiled(case)[case.name][1](*case.values()), explored(case)
    assert run.findings and np.array_equal(run.arguments["z"], plain.arguments["z"])
    assert np.array_equal(run.trace.instrs["op"], plain.trace.instrs["op"])


def test_the_numbers_are_those_of_the_other_order() -> None:
    case = next(c for c in CASES if c.name == "no_way_back")
    outcomes = [f.outcome for f in explored(case).findings]
    x = case.values()[0]
    assert x[0] + x[0] == 2.0 and x[256] + x[256] == 20.0  # the first tile's sum, and the second's
    assert all("z[0] is 20.0 instead of 2.0 (256 of 1024 elements differ)" in o for o in outcomes)


def test_a_later_pair_is_tried_when_the_first_changes_nothing() -> None:
    case = next(c for c in CASES if c.name == "no_way_back")
    x = np.repeat(np.array([1, 1, 5, 7], np.float32), 256)  # the first two tiles are equal
    run = compiled(case)[case.name][1](x, np.zeros_like(x), 4, explore=True)
    assert all("z[256] is 10.0 instead of 2.0" in f.outcome for f in run.findings) and len(run.findings) == 2


ROUNDING = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void adds_up(GM_ADDR x, GM_ADDR sum) {
    GlobalTensor<TYPE> from, to;
    from.SetGlobalBuffer((__gm__ TYPE*)x + GetBlockIdx() * 8);
    to.SetGlobalBuffer((__gm__ TYPE*)sum);
    LocalTensor<TYPE> a(TPosition::VECCALC, 0, 8);
    DataCopy(a, from, 8);
    SetFlag<HardEvent::MTE2_MTE3>(0);
    WaitFlag<HardEvent::MTE2_MTE3>(0);
    SetAtomicAdd<TYPE>();
    DataCopy(to, a, 8);
    SetAtomicNone();
}
"""


@pytest.mark.parametrize(("type_", "dtype"), [("float", np.float32), ("int32_t", np.int32)])
def test_atomic_additions_that_round_depend_on_the_order_of_the_cores(tmp_path: Path, type_: str, dtype: type) -> None:
    file = tmp_path / "adds_up.cpp"
    file.write_text(ROUNDING.replace("TYPE", type_))
    x = np.repeat(np.array([1 << 30, -(1 << 30), 1], dtype), 8)
    run = toprope.load(file).adds_up[3](x, np.zeros(8, dtype), explore=True)
    told = [f.message for f in run.findings if f.code == "core-order-changes-result"]
    differs = "when the last core runs first, sum[0] is 0.0 instead of 1.0 (8 of 8 elements differ)"
    assert told == ([] if dtype is np.int32 else [differs])


def test_on_the_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    case = next(c for c in CASES if c.name == "copies_out_too_early")
    file = tmp_path / "early.cpp"
    file.write_text('#include "kernel_operator.h"\nusing namespace AscendC;\n' + case.source)
    words = [f"{file}:{case.name}", "x=float32[256] ones", "z=float32[256] zeros"]
    assert main(["check", *words]) == 1
    assert "explored:" not in capfd.readouterr().out
    assert main(["check", "--explore", *words]) == 1
    shown = capfd.readouterr().out
    assert "explored: with Add (line" in shown and "z[0] is nan instead of 2.0 (256 of 256 elements differ)" in shown

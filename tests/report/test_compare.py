"""Two reports side by side: what the time of their busiest pipe went to."""

from __future__ import annotations

import pytest

from tests.profile.test_diagnosis import run
from toprope.commands import compare
from toprope.profile import diagnose
from toprope.report import summary

pytestmark = pytest.mark.compiler


def test_a_comparison_says_what_a_pipe_no_longer_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    single, double = (
        summary.as_json(summary.of(found, {}, diagnose(found)))
        for found in (run("single", blocks=8), run("good", blocks=8))
    )
    changes = compare.difference(single, double)
    waits = changes["pipes_us"]["V"]["MTE2"]
    assert waits[0] > waits[1] + 1.0
    total = sum(before for before, _ in changes["pipes_us"]["V"].values())
    assert total == pytest.approx(single["microseconds"], rel=0.05)
    compare._show(single, double, changes)
    shown = capsys.readouterr().out
    assert "waits for" in shown and f"{single['cycles']:,.0f} → {double['cycles']:,.0f} cycles" in shown

"""The band around a prediction: where it comes from, that it holds what it promises, and that it says when nothing is known."""

from __future__ import annotations

import pytest

from toprope.timing import confidence
from toprope.timing.confidence import Evidence, around, evidence
from toprope.validation import experiment, fit


def outcome(publisher: str, series: str, us: float, published: float, work: str) -> experiment.Outcome:
    row = experiment.Published(publisher, "k", series, "i", "w", "c", "k", "s", published, {}, {})
    return experiment.Outcome(row, us, {}, 0.0, 1, 0.0, work=work)


def test_a_band_holds_four_fifths_of_the_rows_it_is_made_of() -> None:
    rows = [outcome("p", f"s{i}", 100.0, 80.0 + i, "copies") for i in range(41)]
    (everything, copies) = fit.bands(rows)
    assert everything.rows == copies.rows == 41 and copies.publishers == 1
    inside = [o for o in rows if copies.low <= o.row.us / o.us <= copies.high]
    assert 0.78 <= len(inside) / len(rows) <= 0.88


def test_a_kind_without_rows_says_so_and_gets_twice_the_band() -> None:
    table = {"all": Evidence("all", 100, 5, 0.8, 1.25), "copies": Evidence("copies", 9, 3, 0.9, 1.1)}
    known = around(50.0, "copies", measured=True, table=table)
    assert known.known and (known.low_us, known.high_us) == pytest.approx((45.0, 55.0))
    for unknown in (
        around(50.0, "sorting by smell", measured=True, table=table),
        around(50.0, "copies", measured=False, table=table),
    ):
        assert not unknown.known and "no published time" in unknown.sentence()
        assert (unknown.low_us, unknown.high_us) == pytest.approx((50 * 0.64, 50 * 1.5625))


def test_the_bands_in_use_come_from_rows_and_contain_the_prediction() -> None:
    found = evidence()
    assert found["all"].rows >= 100 and found["all"].publishers >= 8
    assert all(e.low <= 1.0 <= e.high for e in found.values())
    assert sum(e.rows for kind, e in found.items() if kind != "all") == found["all"].rows
    assert confidence.COVERED == 0.8

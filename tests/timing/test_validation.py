"""The published rows that run quickly, within the bars that docs/validation.md is judged by."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from toprope.validation import experiment, fit, page, picture, report

pytestmark = pytest.mark.compiler

ROWS = {f"{row.kernel}-{row.id}": row for row in experiment.published()}


def outcomes(*names: str) -> list[experiment.Outcome]:
    return [experiment.run(ROWS[name]) for name in names]


def test_vector_variants_of_add_are_close_and_in_order() -> None:
    found = outcomes(*(f"add-c{i}" for i in range(1, 7)))
    assert all(abs(o.error) <= 0.08 for o in found), {o.row.id: o.error for o in found}
    assert report.misordered(found) == []
    vector = [o.pipe_errors["V"] for o in found]
    assert max(map(abs, vector)) <= 0.02, vector


def test_copies_are_close_and_in_order() -> None:
    found = outcomes(*(f"data_copy-s{i}" for i in (3, 4, 5, 6, 7, 8)), *(f"data_copy-l{i}" for i in (1, 2, 6, 7)))
    assert all(abs(o.error) <= 0.12 for o in found), {o.row.id: o.error for o in found}
    assert report.misordered(found[:6]) == [] and found[8].us > found[9].us, "staggered reads are the faster ones"


def test_products_are_close() -> None:
    found = outcomes("matmul-r1", "matmul_object-g2", "matmul_object-g5")
    assert all(abs(o.error) <= 0.15 for o in found), {o.row.id: o.error for o in found}


def test_kernels_of_a_few_microseconds_are_close() -> None:
    found = outcomes(*(f"tiles-{op}{n}" for op in ("mu", "re", "or") for n in (1, 8, 64)), "sigmoid-u1", "sigmoid-u7")
    assert all(abs(o.error) <= 0.15 for o in found), {o.row.id: o.error for o in found}
    scalar = [o.pipe_errors["S"] for o in found if "S" in o.row.pipes]
    assert sorted(map(abs, scalar))[len(scalar) // 2] <= 0.2, scalar


def test_a_row_is_blind_to_its_publisher() -> None:
    row, solved = ROWS["tiles-re8"], fit.fitted()
    found = fit.blind(row, solved)
    assert found.us != found.seen_us and found.seen_us == pytest.approx(experiment.run(row).us)
    assert found.other_us is not None


@pytest.mark.slow
def test_scalar_add_within_a_factor_two() -> None:
    (c0,) = outcomes("add-c0")
    assert 0.5 <= c0.us / c0.row.us <= 2.0


def test_the_page_shows_every_row_and_its_pictures_are_svg() -> None:
    found = outcomes("add-c5", "data_copy-s3", "sigmoid-u1")
    shown = page.markdown(found, complete=False)
    assert "| c5 |" in shown and "fast subset" in shown and "| kernel public | 2 |" in shown
    assert "figures/validation-copy.svg" in shown
    data = json.loads(json.dumps(report.as_json(found)))
    assert data["public"]["rows"] == 2 and data["all"]["rows"] == 3
    drawn = ElementTree.fromstring(picture.scatter("copy & co", found))
    circles = [e for e in drawn.iter() if e.tag.endswith("circle") and e.get("fill-opacity")]
    assert len(circles) == 3


def test_pairs_closer_than_repeated_measurements_are_counted_apart() -> None:
    def outcome(name: str, published: float, ours: float, series: str = "s", repeats: str = "") -> experiment.Outcome:
        row = experiment.Published("p", "k", series, name, "", "c", "k", "src", published, {}, {}, repeats=repeats)
        return experiment.Outcome(row, ours, {}, 0.0, 1, 0.0)

    found = [
        outcome("a", 100.0, 120.0),
        outcome("b", 103.0, 110.0),
        outcome("d", 200.0, 100.0),
        outcome("e", 50.0, 9.0, "t"),
    ]
    assert report.orders(found, 0.0) == report.Orders(pairs=3, wrong=3, apart=3, wrong_apart=3)
    assert report.orders(found, 0.05) == report.Orders(pairs=3, wrong=3, apart=2, wrong_apart=2)
    again = [*(o.row for o in found), outcome("f", 106.0, 1.0, repeats="a").row]
    assert report.spread_of_repeats(again) == pytest.approx(0.06)
    assert 0.0 < report.spread_of_repeats(experiment.published()) < 0.1


def test_order_is_judged_by_pairs_and_ties_are_left_out() -> None:
    a, b = (
        experiment.Published("p", "k", "s", name, "", "c", "k", "src", us, {}, {})
        for name, us in (("a", 100.0), ("b", 110.0))
    )

    def outcome(row: experiment.Published, us: float) -> experiment.Outcome:
        return experiment.Outcome(row, us, {}, 0.0, 1, 0.0)

    assert report.misordered([outcome(a, 120.0), outcome(b, 100.0)]) == [("a", "b")]
    assert report.misordered([outcome(a, 100.1), outcome(b, 100.0)]) == []
    assert report.misordered([outcome(a, 90.0), outcome(b, 100.0)]) == []

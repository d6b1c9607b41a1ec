"""Constants of the chip file are solved by a program: what is in the file is what it solved, and it solves what it should."""

from __future__ import annotations

from fnmatch import fnmatch

import numpy as np
import pytest

from toprope import soc
from toprope.timing.least_squares import LeastSquares
from toprope.validation import experiment, fit, report


def test_the_chip_file_has_what_was_solved() -> None:
    constants = fit.constants()
    solved = fit.fitted()
    for c in constants:
        assert soc.load(c.chip).number(c.paths[0]) == pytest.approx(solved.all_rows[c.name], rel=0.01), c.name
    assert {values.keys() == solved.all_rows.keys() for values in solved.without.values()} == {True}


def test_every_constant_names_rows_that_exist_and_are_marked() -> None:
    rows = {fit.name_of(row): row for row in experiment.published()}
    assert len(rows) == len(experiment.published()), "names of rows are unique"
    constants = fit.constants()
    for c in constants:
        for pattern in c.rows:
            hit = [row for name, row in rows.items() if fnmatch(name, pattern)]
            assert hit and all(row.fit for row in hit), f"{c.name}: {pattern}"
    marked = {name for name, row in rows.items() if row.fit}
    used = {name for name in marked if any(c.uses(rows[name]) for c in constants)}
    assert marked == used


def test_a_publisher_that_is_left_out_does_not_move_its_constants() -> None:
    constants = fit.constants()
    solved = fit.fitted()
    rows = [row for row in experiment.published() if row.fit]
    for c in constants:
        publishers = {row.publisher for row in rows if c.uses(row)}
        if len(publishers) == 1:
            (only,) = publishers
            assert solved.without[only][c.name] == pytest.approx(c.prior, rel=0.15), c.name


def test_least_squares_finds_known_constants_and_shrugs_at_an_outlier() -> None:
    truth = np.log([3.0, 0.5])
    weights = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0], [2.0, 1.0], [1.0, 2.0]])
    measured = weights @ truth
    measured[2] += 3.0  # a row that nothing explains

    def residual(row: int, logs: np.ndarray) -> np.ndarray:
        return np.array([(weights[row] @ logs - measured[row]) / 0.05])

    squares = LeastSquares(residual, weights != 0, np.zeros(2), np.full(2, 2.0))
    logs, _, _ = squares.solve(np.zeros(2), 30)
    assert logs == pytest.approx(truth, abs=0.05)


def test_numbers_are_written_where_they_stand() -> None:
    text = '[a]\nkind = "x"\nv = 1.5  # note\n\n[costs.b]\nsource = "v = 9"\nrows.r = { fixed = 2, any = 3 }\nrows.s = { any = 4 }\n'
    text = fit.with_number(text, "a.v", 2.3456)
    text = fit.with_number(text, "costs.b.rows.r.any", 7)
    assert "v = 2.35  # note" in text and "rows.r = { fixed = 2, any = 7 }" in text and "rows.s = { any = 4 }" in text
    with pytest.raises(ValueError, match=r"a\.w"):
        fit.with_number(text, "a.w", 1)


def test_summaries_by_group() -> None:
    row = experiment.Published("p", "k", "s", "i", "w", "c", "k", "s", 100.0, {}, {})
    found = report.by([experiment.Outcome(row, 110.0, {}, 0.0, 1, 0.0)], lambda o: o.row.publisher)
    assert report.summary(found["p"]).mean_error == pytest.approx(0.1)

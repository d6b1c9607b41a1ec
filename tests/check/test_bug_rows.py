"""The table of public bugs is up to date, and what it calls caught is caught by a kernel of ours."""

from __future__ import annotations

from tests.check.blind import recorded
from tests.check.bug_table import TABLE, kernels, rows, text


def test_the_table_is_up_to_date() -> None:
    assert TABLE.read_text() == text(), "run: python -m tests.check.bug_table"


def test_caught_rows_have_a_kernel_with_findings() -> None:
    by_name = kernels()
    for row in rows():
        names = row.get("kernels", [])
        assert isinstance(names, list)
        if row["verdict"] == "caught":
            assert names and all(by_name[name].expected() for name in names), f"row {row['n']} shows nothing"
        else:
            assert row.get("why"), f"row {row['n']} is {row['verdict']} without a reason"


def test_kernels_that_were_held_back_were_named_without_a_false_alarm() -> None:
    held = recorded()["fresh_held_back"]
    words = [v.word for v in held]
    assert len(held) == 67 and words.count("right") >= 0.9 * sum(v.faulty for v in held)
    assert "false-alarm" not in words


def test_every_kernel_of_the_page_belongs_to_a_row() -> None:
    used = {name for row in rows() for name in row.get("kernels", [])}  # type: ignore[attr-defined]
    assert {name for name, case in kernels().items() if case.expected()} == used


def test_nine_of_ten_bugs_that_a_checker_could_name_are_named() -> None:
    nameable = [row for row in rows() if row.get("nameable")]
    caught = [row for row in nameable if row["verdict"] == "caught"]
    assert len(nameable) == 33 and len(caught) >= 0.9 * len(nameable)

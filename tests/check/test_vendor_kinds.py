"""Every report kind of the vendor's checkers has a finding that a page of kernels shows, or a reason why not."""

from __future__ import annotations

from tests.check import vendor_table
from tests.check.pages import FOLDER, cases
from toprope.finding import codes


def test_the_table_in_the_manual_is_up_to_date() -> None:
    manual = vendor_table.MANUAL.read_text()
    assert vendor_table.BEGIN in manual
    assert vendor_table.in_manual(manual) == manual, "run python -m tests.check.vendor_table"


def test_every_kind_has_a_code_that_a_kernel_shows_or_a_reason() -> None:
    shown = {code for page in FOLDER.glob("*.md") for case in cases(page) for _, code, _ in case.expected()}
    for row in vendor_table.kinds():
        assert bool(row["codes"]) != bool(row.get("why")), row["says"]
        assert set(row["codes"]) <= set(codes()) & shown, f"{row['says']}: {set(row['codes']) - shown}"
        if row["codes"]:
            of_page = {code for case in cases(FOLDER / f"{row['page']}.md") for _, code, _ in case.expected()}
            assert of_page & set(row["codes"]), f"{row['page']}.md shows none of {row['codes']}"


def test_what_is_left_out_does_not_apply() -> None:
    left_out = {row["says"] for row in vendor_table.kinds() if not row["codes"]}
    assert len(left_out) <= 5 and all(
        "threads" in s or "NPUs" in s or "mask" in s or "reset" in s or "Write3" in s for s in left_out
    )

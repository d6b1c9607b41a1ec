"""Faults put into clean kernels are seen: by a finding or by a wrong result."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.check.mutations import EXAMPLES, Verdict, everything, figures, of_example, of_page
from tests.check.pages import FOLDER

SHARE = 0.95


def require_share(verdicts: Sequence[Verdict]) -> None:
    """Fail, with the mutants that were missed, if they are too many."""
    missed = [str(v) for v in verdicts if not v.shown_by and not v.equivalent]
    seen = sum(bool(v.shown_by) for v in verdicts)
    assert seen >= SHARE * (seen + len(missed)), "\n".join([figures(verdicts), *missed])


def test_the_add_example() -> None:
    require_share(of_example(EXAMPLES / "01_add" / "add_custom.cpp"))


def test_copies_between_pipes() -> None:
    require_share(of_page(FOLDER / "races_inside_a_pipe.md"))


@pytest.mark.slow
def test_every_example_and_page() -> None:
    require_share(everything())


def test_figures_leave_equivalent_mutants_out() -> None:
    add = of_example(EXAMPLES / "01_add" / "add_custom.cpp")
    assert all(v.shown_by for v in add)
    assert figures(add).startswith(f"{len(add)} of {len(add)} ") and "(100.0%)" in figures(add)

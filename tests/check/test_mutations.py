"""Faults put into clean kernels are seen: by a finding or by a wrong result."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.check.mutations import EXAMPLES, Verdict, everything, figures, of_example

SHARE = 0.95


def require_share(verdicts: Sequence[Verdict]) -> None:
    """Fail, with the mutants that were missed, if they are too many."""
    missed = [str(v) for v in verdicts if not v.shown_by and not v.equivalent]
    seen = sum(bool(v.shown_by) for v in verdicts)
    assert seen >= SHARE * (seen + len(missed)), "\n".join([figures(verdicts), *missed])


@pytest.mark.slow
def test_every_example_and_page() -> None:
    require_share(everything())


def test_the_add_example() -> None:
    add = of_example(EXAMPLES / "01_add" / "add_custom.cpp")
    require_share(add)
    assert figures(add).startswith(f"{sum(bool(v.shown_by) for v in add)} of {len(add)} ")

"""The figures on the page are those that the benchmarks gave."""

from __future__ import annotations

import json

from benchmarks import _serve_page


def test_the_page_shows_the_results_that_are_kept() -> None:
    table = _serve_page.table()
    assert _serve_page.BEGIN + table + _serve_page.END in _serve_page.PAGE.read_text()
    merging = json.loads((_serve_page.KEPT / "serve_merging.json").read_text())
    assert f"| {merging['bar']:g}x | {merging['ratio']:.1f}x " in table

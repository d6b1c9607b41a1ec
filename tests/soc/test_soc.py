"""Chip files: complete, honest about their sources, and inherited without losing track of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from toprope import soc
from toprope.commands.compare import difference
from toprope.errors import BadChip
from toprope.vendor_paths import INCLUDE

CHIPS = soc.names()


@pytest.mark.parametrize("name", CHIPS)
def test_every_number_says_where_it_comes_from(name: str) -> None:
    chip = soc.load(name)
    for path in chip.numbers():
        assert chip.kind_of(path) in soc.KINDS, path
        assert len(chip.source_of(path)) > 10, path


@pytest.mark.parametrize("name", CHIPS)
def test_every_chip_has_what_the_other_layers_ask_for(name: str) -> None:
    chip = soc.load(name)
    assert chip.aic > 0 and chip.aiv > 0 and 0.4 < chip.ghz < 2.5
    assert chip.npu_arch in (1001, 2002, 2201, 3002, 3510)
    for space in ("ub", "l1", "l0a", "l0b", "l0c"):
        assert chip.bytes_of(space) % 1024 == 0 and chip.bytes_of(space) > 0


def test_known_facts_of_910b1() -> None:
    chip = soc.load("Ascend910B1")
    assert (chip.aic, chip.aiv, chip.ghz, chip.split, chip.npu_arch) == (24, 48, 1.85, True, 2201)
    assert chip.bytes_of("ub") == 192 * 1024 and chip.bytes_of("l0c") == 128 * 1024
    assert chip.number("memory.l2_bytes") == 192 * 2**20
    assert chip.kind_of("spaces.ub_bytes") == "documented"


def test_a_variant_changes_only_what_it_states() -> None:
    b1, b3 = soc.load("ascend910b1"), soc.load("ascend910b3")
    assert (b3.aic, b3.aiv, b3.ghz) == (20, 40, 1.8)
    assert b3.cost("vadd") == b1.cost("vadd")
    assert b3.bytes_of("ub") == b1.bytes_of("ub")


def test_numbers_of_another_architecture_are_assumed_unless_stated() -> None:
    chip = soc.load("ascend310p3")
    assert chip.cost("vadd").kind == "assumed" and "ascend910b1" in chip.cost("vadd").source
    assert chip.cost("l1_to_l0a").kind == "documented"
    assert not chip.split and chip.kind_of("hbm.read_tbps") == "documented"


def test_cost_rows_answer_by_the_most_exact_type() -> None:
    chip = soc.load("ascend910b1")
    reduce = chip.cost("vcgadd")
    assert reduce.per_work_of("float32", "float32") == 1.0
    assert reduce.per_work_of("float16", "float16") == 7.0


def test_what_is_missing_is_named() -> None:
    chip = soc.load("ascend910b1")
    with pytest.raises(BadChip, match="vquux"):
        chip.cost("vquux")
    with pytest.raises(BadChip, match=r"spaces\.l9_bytes"):
        chip.bytes_of("l9")
    with pytest.raises(BadChip, match="unknown chip"):
        soc.load("ascend1")


def test_differences_are_the_numbers_that_two_chips_do_not_share() -> None:
    found = {path: (a, b) for path, a, b in soc.differences("ascend910b1", "ascend910b4")}
    assert found["clock.core_ghz"] == ("1.85", "1.65") and "ub_banks.groups" not in found
    assumed = {path: b for path, _, b in soc.differences("ascend910b1", "ascend910a")}
    assert assumed["memory.l2_bytes"].endswith("?"), "assumed there"
    assert not found["hbm.read_tbps"][1].endswith("?"), "derived from a published row"
    assert soc.differences("ascend910b1", "ascend910b1") == []


def test_two_reports_of_different_chips_say_what_differs() -> None:
    reports = [
        {"soc": name, "microseconds": us, "busy": {}, "lines": [], "findings": []}
        for name, us in (("ascend910b1", 1.0), ("ascend910b4", 2.0))
    ]
    chip = {row["number"]: row for row in difference(*reports)["chip"]}
    assert chip["cores.aic"] == {"number": "cores.aic", "before": "24", "after": "20"}
    assert difference(reports[0], reports[0])["chip"] == []


def test_comparison_shows_chips_side_by_side_and_marks_assumptions() -> None:
    header, architecture, *rows = soc.compare(["ascend910b1", "ascend310p3"])
    table = {row[0]: row[1:] for row in rows}
    assert header == ["", "ascend910b1", "ascend310p3"] and architecture[1:] == ["dav-2201", "dav-2002"]
    assert table["cores.aiv"] == ["48", "8"]
    number = soc.shown(soc.load("ascend910b1").number("gm_latency.miss_cycles"))
    assert table["gm_latency.miss_cycles"] == [number, f"{number} ?"]
    assert all(len(row) == 3 for row in rows)


def declared_costs(headers: Path) -> dict[str, str]:
    """Cost names in the header library, with a file that uses each: in Op declarations and in the rows of family macros."""
    declaration = re.compile(r'Op\s+\w+\s*\{\s*"[^"]+",\s*Pipe::\w+,\s*Kind::\w+,\s*"(\w+)"')
    table = re.compile(r'\{"[^"]+",\s*Pipe::\w+,\s*Kind::\w+,\s*"(\w+)"')
    macro = re.compile(r'^\s*TOPROPE_\w+\(\w+,\s*"[^"]*",\s*"([a-z0-9_]+)"', re.M)
    found: dict[str, str] = {}
    for header in sorted(headers.rglob("*.h")):
        text = header.read_text()
        for pattern in (declaration, table, macro):
            found.update((cost, header.name) for cost in pattern.findall(text))
    return found


@pytest.mark.parametrize("name", CHIPS)
def test_every_operation_of_the_header_library_has_a_price(name: str) -> None:
    costs = declared_costs(INCLUDE)
    assert {"vadd", "gm_to_ub", "ub_to_gm", "set_flag", "queue_alloc"} <= costs.keys()
    chip = soc.load(name)
    # Registers exist on the 950 only.
    wanted = {cost for cost in costs if chip.npu_arch == 3510 or not cost.startswith("reg_")}
    missing = sorted(wanted - set(chip.cost_names()))
    assert not missing, [f"{cost} ({costs[cost]})" for cost in missing]


def test_a_chip_of_a_class_has_the_numbers_of_its_class() -> None:
    for name, of in {
        "Ascend950PR_9579": "ascend950pr_957x", "ascend950pr_958b": "ascend950pr_958x", "ascend950dt_9584": "ascend950dt_958x"
    }.items():  # fmt: skip
        assert soc.load(name).table == soc.load(of).table
    assert soc.load("ascend950dt_9581").table != soc.load("ascend950dt_958x").table  # its own file comes first
    with pytest.raises(BadChip):
        soc.load("ascend950pr_9699")


def test_the_simulators_950_counts_every_number_as_assumed() -> None:
    chip, base = soc.load("Ascend950PR_9599"), soc.load("ascend950pr_958x")
    assert chip.number("cores.aiv") == base.number("cores.aiv")
    assert {chip.kind_of(p) for p in chip.numbers()} == {"assumed"}

"""`toprope compat` on a repository of our own: what is found, what compiles, what the unit tests say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.compat.a_repository import build
from toprope.commands.compat import main
from toprope.compat.survey import as_json, as_junit, survey
from toprope.compat.unit_tests import run_tests
from toprope.errors import BadInput
from toprope.project.checkout import Checkout
from toprope.project.definition import builds_for, read_definition
from toprope.project.operators import find_operators
from toprope.project.template_keys import declared, first_arguments, selections
from toprope.soc import load


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("repository"))


def test_operators_of_the_wanted_chip_are_found(root: Path) -> None:
    operators = {o.name: o for o in find_operators(root)}
    assert set(operators) == {"doubler", "forgetful", "newer", "shared_parts"}
    built = {n for n, o in operators.items() if o.kernels("ascend910b1")}
    assert built == {"doubler", "forgetful"}


def test_a_folder_without_operators_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no operator"):
        find_operators(tmp_path)


def test_definition_gives_the_defines_of_a_combination(root: Path) -> None:
    found = read_definition(root / "math" / "doubler" / "op_host" / "doubler_def.cpp")
    assert found is not None and found.combinations == 2
    assert "DTYPE_X=half" in found.defines(0) and "ORIG_DTYPE_Y=DT_FLOAT" in found.defines(1)
    assert "FORMAT_X=FORMAT_ND" in found.defines(0)


@pytest.mark.parametrize(
    ("family", "chip", "same"),
    [("ascend910b", "ascend910b1", True), ("ascend910", "ascend910b1", False), ("ascend910", "ascend910a", True)],
)
def test_family_names(family: str, chip: str, same: bool) -> None:
    assert builds_for(family, chip) is same


def test_template_keys_are_read() -> None:
    text = """ASCENDC_TPL_ARGS_DECL(Op, ASCENDC_TPL_UINT_DECL(mode, ASCENDC_TPL_4_BW, ASCENDC_TPL_UI_RANGE, 1, 2, 4),
        ASCENDC_TPL_BOOL_DECL(flag, 0, 1), ASCENDC_TPL_DTYPE_DECL(D, C_DT_FLOAT16, C_DT_FLOAT),);
        ASCENDC_TPL_SEL(ASCENDC_TPL_ARGS_SEL(ASCENDC_TPL_UINT_SEL(mode, ASCENDC_TPL_UI_LIST, 3, 4),
        ASCENDC_TPL_BOOL_SEL(flag, 1), ASCENDC_TPL_DTYPE_SEL(D, C_DT_FLOAT16)));"""
    first = declared(text)[0]
    assert (first.name, first.values, first.bits) == ("mode", ("2", "3", "4"), 4)
    assert len(selections(text)) == 1
    assert first_arguments(text, "uint32_t mode, bool flag, typename D", None) == "3, 1, half"


def test_rows_say_what_is_missing(root: Path, tmp_path: Path) -> None:
    checkout, soc, results = Checkout(root), load("ascend910b1"), tmp_path / "rows.jsonl"
    rows = survey(checkout, soc, results=results)
    assert [(r.operator, r.compiled, r.kind) for r in rows] == [
        ("math/doubler", True, ""),
        ("math/forgetful", False, "name NoSuchFunction"),
    ]
    assert rows[1].place.endswith("forgetful.cpp:6")
    assert json.loads(as_json(rows, soc))["totals"]["compiled"] == 1
    assert 'failures="1"' in as_junit(rows)
    done: list[str] = []
    results.write_text(
        results.read_text().splitlines()[0] + '\n{"operator": "math/for'
    )  # as an interrupted run leaves it
    again = survey(checkout, soc, results=results, resume=True, seen=lambda row: done.append(row.operator))
    assert [r.compiled for r in again] == [True, False] and done == ["math/doubler", "math/forgetful"]


def test_unit_tests_run_unchanged_and_comparisons_count(root: Path) -> None:
    checkout = Checkout(root)
    operator = next(o for o in checkout.operators if o.name == "doubler")
    results = run_tests(checkout, operator, load("ascend910b1"))
    assert results[0].verdict != "not-built", results[0].message
    verdicts = {r.name.split(".")[-1]: r.verdict for r in results}
    assert verdicts == {
        "right": "passed",
        "nobody_looks": "compare-failed",
        "expectation": "failed",
        "crash": "crashed",
        "skipped": "skipped",
    }


def test_command(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.json"
    assert main([str(root), "-k", "doubler", "--json", str(file)]) == 0
    assert "1 of 1 operators compile" in capsys.readouterr().out
    assert json.loads(file.read_text())["operators"][0]["operator"] == "math/doubler"
    with pytest.raises(BadInput, match="no operator"):
        main([str(root), "-k", "nothing_like_this"])

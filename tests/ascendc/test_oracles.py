"""A function without an oracle is not tested: every name that `toprope api` lists stands in the ORACLES of some test module."""

from __future__ import annotations

import ast
from pathlib import Path

from toprope import api

HERE = Path(__file__).parent


def names_with_oracles() -> set[str]:
    """Keys of the ORACLES tables, read from the syntax trees so that no kernel is compiled for it."""
    found: set[str] = set()
    for file in HERE.rglob("test_*.py"):
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            target = (
                node.target
                if isinstance(node, ast.AnnAssign)
                else node.targets[0]
                if isinstance(node, ast.Assign)
                else None
            )
            if (
                not (isinstance(target, ast.Name) and target.id == "ORACLES")
                or not isinstance(node, ast.AnnAssign | ast.Assign)
                or node.value is None
            ):
                continue
            # Strings used as keys, in literals and in comprehensions over tuples of names.
            found |= {n.value for n in ast.walk(node.value) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
            # Tables that the oracles are built from: their string constants count too.
            used = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
            for other in tree.body:
                names = [
                    t.id for t in getattr(other, "targets", [getattr(other, "target", None)]) if isinstance(t, ast.Name)
                ]
                if set(names) & used:
                    found |= {
                        n.value for n in ast.walk(other) if isinstance(n, ast.Constant) and isinstance(n.value, str)
                    }
    return found


def test_every_function_has_an_oracle() -> None:
    listed = {name for name, f in api.functions().items() if not f.header.startswith("host/")}
    missing = sorted(listed - names_with_oracles())
    assert not missing, f"{len(missing)} functions have no oracle: {missing}"


def test_every_function_says_what_it_does() -> None:
    assert not [f.name for f in api.functions().values() if len(f.meaning) < 8]
    assert len(api.functions()) > 250


def test_a_listing_is_counted_and_what_is_missing_has_its_reason(tmp_path: Path) -> None:
    listing = tmp_path / "names.tsv"
    listing.write_text(
        "api\tcount\nAdd\t3\ntuple\t1\nReg::Add\t1\nReg::Nothing\t1\nTe::Copy\t1\nLoadImageToLocal\t1\nAType\t1\nNobodyKnowsThis\t1\n"
    )
    have, missing = api.coverage(listing)
    assert have == ["Add", "tuple", "Reg::Add"] and missing[0] == "Reg::Nothing"
    reasons = [api.reason_missing(name) for name in missing[1:]]
    assert [
        "950" in reasons[0],
        "image unit is not supported" in reasons[1],
        "themselves" in reasons[2],
        reasons[3],
    ] == [
        True,
        True,
        True,
        "",
    ]

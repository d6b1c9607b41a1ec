"""`./dev mutate`: which changes it tries, and that it tells a test that notices from one that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import mutate


def changes(name: str, text: str) -> list[tuple[int, str]]:
    return [(m.line, m.change) for m in mutate.mutants(name, text)]


def test_numbers_and_comparisons_of_tables_and_cpp() -> None:
    table = '[mixed]\nsource = "page 7"\nrequire = ["share <= 0.01"]  # 5\nfloat16 = { rtol = "2^-9", n = 0 }\n'
    assert changes("a.toml", table) == [
        (3, "0.01 -> 0.02"),
        (3, "<= -> <"),
        (4, "2 -> 4"),
        (4, "9 -> 18"),
        (4, "0 -> 1"),
    ]
    assert next(mutate.mutants("a.toml", table)).text == table.replace("0.01", "0.02")
    assert changes("a.h", "int k8 = 0x10; // 7\nif (a < 4) b.x2 = 1.5f;\n") == [
        (1, "0x10 -> 0x11"),
        (2, "4 -> 8"),
        (2, "1.5 -> 3.0"),
        (2, "< -> <="),
    ]


def test_python_by_cosmic_ray() -> None:
    pytest.importorskip("cosmic_ray")
    found = list(mutate.mutants("a.py", "import os\n\ndef f(x):\n    return x + 1 if x > 2 else 0\n"))
    assert {m.line for m in found} == {4} and len(found) == len({m.text for m in found}) >= 5
    assert any("x - 1" in m.text for m in found)


def test_a_survivor_is_told_from_a_change_that_a_test_notices(tmp_path: Path) -> None:
    (tmp_path / "rate.py").write_text("RATE = 2\n")
    (tmp_path / "test_rate.py").write_text("import rate\n\ndef test_rate():\n    assert 0 < rate.RATE < 4\n")
    assert mutate.passes(tmp_path, ["test_rate.py"], 60)
    (tmp_path / "rate.py").write_text("RATE = 3\n")
    assert mutate.passes(tmp_path, ["test_rate.py"], 60)
    (tmp_path / "rate.py").write_text("RATE = 4\n")
    assert not mutate.passes(tmp_path, ["test_rate.py"], 60)
    (tmp_path / "rate.py").write_text("while True:\n    pass\n")
    assert not mutate.passes(tmp_path, ["test_rate.py"], 3)


def test_tests_that_mirror_a_file() -> None:
    assert mutate.tests_of(Path("toprope/profile/roofline.py")) == ["tests/profile"]
    assert mutate.tests_of(Path("toprope/serve/engine/sampler.py")) == ["tests/serve/engine"]
    assert "tests/test_tiling.py" in mutate.tests_of(Path("toprope/tiling.py"))

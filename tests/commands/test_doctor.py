"""toprope doctor: it runs a kernel, and what is missing comes with one command."""

from __future__ import annotations

from pathlib import Path

import pytest

from toprope.commands import doctor
from toprope.errors import NoCompiler


def rows(*, run_a_kernel: bool = False) -> dict[str, doctor.Check]:
    return {r.what: r for r in doctor.checks(run_a_kernel=run_a_kernel)}


def test_a_whole_machine_runs_a_kernel() -> None:
    found = rows(run_a_kernel=True)
    assert found["a small kernel"].ok and found["a small kernel"].found.startswith("right")
    assert found["Python"].ok and found["compile cache"].ok and found["numpy"].found.count(".") >= 1


def test_every_line_says_what_it_is_for_and_how_to_get_it() -> None:
    for name, row in rows().items():
        assert row.gives, name
        assert row.ok or row.fix, name


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def none() -> None:
        raise NoCompiler("none", cure="install one")

    monkeypatch.setattr(doctor, "compiler", none)
    found = rows(run_a_kernel=True)
    assert not found["C++ compiler"].ok and found["C++ compiler"].needed and found["C++ compiler"].fix
    assert "a small kernel" not in found
    assert doctor.main(["--quick"]) == 1
    assert "first:" in capsys.readouterr().out


def test_an_old_or_absent_package(monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor.version

    def version(name: str) -> str:
        if name == "ray":
            raise doctor.PackageNotFoundError(name)
        return "1.2.3" if name == "numpy" else real(name)

    monkeypatch.setattr(doctor, "version", version)
    found = rows()
    assert found["ray"].found == "none" and not found["ray"].needed and found["ray"].fix == "pip install 'toprope[ray]'"
    assert found["numpy"].found == "1.2.3, 1.26 is needed" and not found["numpy"].ok


def test_a_toolkit_and_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "version.cfg").write_text("runtime_running_version=[8.3.RC1:ascend]\n")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    found = rows()["CANN toolkit"]
    assert found.ok and found.found == f"{tmp_path}, 8.3.RC1"

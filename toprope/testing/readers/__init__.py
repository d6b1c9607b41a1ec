"""Readers of the ecosystem's test files; `find_suites` recognises what a path holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from toprope.testing import casefile
from toprope.testing.cases import Case, Input
from toprope.testing.elements import Array
from toprope.testing.errors import FormatError
from toprope.testing.golden import Golden, golden_from
from toprope.testing.readers import assets, cann_bench, msopst, scripts, testspec, ttk
from toprope.testing.suite import Reference, Suite


def recognised(file: Path) -> bool:
    """Whether `file` stands for cases: a table, a case file, a task, a script pair, or an asset without a table."""
    if file.name == "proto.yaml":
        return cann_bench.is_task(file.parent)
    if file.name in scripts.GENERATORS:
        return any(file.with_name(name).is_file() for name in scripts.VERIFIERS)
    if file.suffix == ".toml":
        text = file.read_text(errors="replace")
        return "[[cases]]" in text or "[[operator.inputs]]" in text
    if file.suffix == ".json":
        return msopst.is_case_file(file)
    if file.suffix in (".csv", ".xlsx"):
        return ttk.is_table(file)
    return file.suffix == ".py" and bool(testspec.tables(file))


def suites_of_file(file: Path) -> list[Suite]:
    """The suites that one file stands for; references are found in the operator's folder. Raises FormatError."""
    if file.name == "proto.yaml":
        return [cann_bench.read(file.parent)]
    if file.suffix == ".toml":
        return [_toml_suite(file)]
    if file.suffix == ".json":
        return [msopst.read(file)]
    beside = assets.read(assets.operator_root(file, Path(file.anchor)))
    if file.suffix == ".py":
        # Operators with a table are run from the table; only those without one are run from the asset.
        return [s for s in beside if s.path == file and any("_guess_" in case.name for case in s.cases)]
    return list(_table_suites(file, {s.name: s for s in beside if s.reference is not None}))


def find_suites(path: Path) -> list[Suite]:
    """Every suite at or below `path`. Raises FormatError when there is nothing that is understood."""
    if path.is_file() and path.suffix in (".toml", ".json", ".csv") and not path.read_bytes().strip():
        raise FormatError("the file is empty", where=str(path), cure="docs/testing.md says what a case file holds")
    files = [path] if path.is_file() else sorted(f for f in path.rglob("*") if f.is_file() and recognised(f))
    suites = [s for f in files if f.name not in scripts.GENERATORS for s in suites_of_file(f) if s.cases]
    if not suites:
        raise FormatError(
            "no cases found",
            where=str(path),
            cure="give a TOML case file, an ops-test-kit table, a folder with tests/assets, a cann-bench task or an "
            "msopst JSON",
        )
    return suites


def _table_suites(file: Path, beside: Mapping[str, Suite]) -> Iterator[Suite]:
    cases, problems = ttk.read(file)
    by_operator: dict[str, list[Case]] = {}
    for case in ttk.enabled(cases):
        by_operator.setdefault(case.operator, []).append(case)
    for number, (name, chosen) in enumerate(by_operator.items()):
        known = beside.get(name)
        named = {c.name: c for c in known.cases} if known else {}
        bound = [named.get(case.name, case) for case in chosen]
        yield Suite(
            name,
            file,
            "ttk",
            bound,
            known.reference if known else None,
            None,
            known.prepare if known else None,
            problems if number == 0 else (),
        )


def _toml_suite(path: Path) -> Suite:
    found = casefile.read(path)
    golden = golden_from(found.golden, path.parent) if found.golden else None
    operator = found.cases[0].operator if found.cases else path.stem
    rival = golden_from(str(found.settings["competitor"]), path.parent) if "competitor" in found.settings else None
    return Suite(
        operator,
        path,
        "toml",
        found.cases,
        _reference_of(golden) if golden else None,
        _reference_of(replace(rival, precision="same")) if rival else None,
        settings=found.settings,
    )


def _reference_of(golden: Golden) -> Reference:
    def reference(case: Case, inputs: Sequence[Input]) -> list[Array]:
        return golden(inputs, case.attrs)

    return reference

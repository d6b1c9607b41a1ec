"""Readers of the ecosystem's test files; `find_suites` recognises what a path holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from toprope.testing import casefile
from toprope.testing.cases import Case, Input
from toprope.testing.elements import Array
from toprope.testing.errors import FormatError
from toprope.testing.golden import Golden, golden_from
from toprope.testing.readers import assets, cann_bench, msopst, scripts, ttk
from toprope.testing.suite import Reference, Suite


def find_suites(path: Path) -> list[Suite]:
    """Every suite at or below `path`: TOML case files, ops-test-kit tables and assets, cann-bench tasks, msopst JSON.

    Raises FormatError when there is nothing that is understood.
    """
    suites = list(_suites_of_file(path) if path.is_file() else _suites_below(path))
    if not suites and not any(scripts.find(path) if path.is_dir() else ()):
        raise FormatError(
            "no cases found",
            where=str(path),
            cure="give a TOML case file, an ops-test-kit table, a folder with tests/assets, a cann-bench task, "
            "an msopst JSON, or a folder with gen_data.py and verify_result.py",
        )
    return suites


def _suites_of_file(path: Path) -> Iterator[Suite]:
    if path.suffix == ".toml":
        yield _toml_suite(path)
    elif path.suffix == ".json" and msopst.is_case_file(path):
        yield msopst.read(path)
    elif path.suffix in (".csv", ".xlsx") and ttk.is_table(path):
        cases, problems = ttk.read(path)
        by_operator: dict[str, list[Case]] = {}
        for case in ttk.enabled(cases):
            by_operator.setdefault(case.operator, []).append(case)
        beside = {s.name: s for s in assets.read(path.parent) if s.reference is not None}
        for name, chosen in by_operator.items():
            known = beside.get(name)
            reference = known.reference if known else None
            prepare = known.prepare if known else None
            yield Suite(name, path, "ttk", chosen, reference, None, prepare, problems)


def _suites_below(folder: Path) -> Iterator[Suite]:
    for file in sorted(folder.rglob("*.toml")):
        if "[operator]" in file.read_text(errors="replace") or "[[cases]]" in file.read_text(errors="replace"):
            yield _toml_suite(file)
    for proto in sorted(folder.rglob("proto.yaml")):
        if cann_bench.is_task(proto.parent):
            yield cann_bench.read(proto.parent)
    for file in sorted(folder.rglob("*.json")):
        if msopst.is_case_file(file):
            yield msopst.read(file)
    yield from assets.read(folder)


def _toml_suite(path: Path) -> Suite:
    found = casefile.read(path)
    golden = golden_from(found.golden, path.parent) if found.golden else None
    operator = found.cases[0].operator if found.cases else path.stem
    reference = _reference_of(golden) if golden else None
    return Suite(operator, path, "toml", found.cases, reference)


def _reference_of(golden: Golden) -> Reference:
    def reference(case: Case, inputs: Sequence[Input]) -> list[Array]:
        return golden(inputs, case.attrs)

    return reference

"""Precision standards by name: which figures decide, with which limits, read from standards.toml."""

from __future__ import annotations

import operator
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from toprope.commandline import nearest
from toprope.testing.elements import is_float, is_integer
from toprope.testing.errors import StandardError
from toprope.testing.metrics import Domain, ElementTest

_RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}

ALIASES = {
    "mix_tolerance": "mixed",
    "stat_rel_err": "stat-rel-err",
    "binary_equal": "binary",
    "bin": "binary",
    "isclose": "close",
    "cross_check": "benchmark-l1",
    "benchmark": "benchmark-l1",
}
"""Names that test assets and ops-test-kit's --compare use for the same standards."""


@dataclass(frozen=True)
class Bound:
    """One comparison of a metric with its limit, such as mere < 2^-13."""

    metric: str
    relation: str
    limit: float

    def holds(self, value: float) -> bool:
        """Whether `value` keeps the bound; NaN never does."""
        return _RELATIONS[self.relation](value, self.limit)

    def __str__(self) -> str:
        return f"{self.metric} {self.relation} {readable(self.limit)}"


@dataclass(frozen=True)
class Rules:
    """A standard applied to one dtype: element tests, and requirements as (alternative or alternative ...) lines."""

    standard: str
    dtype: str
    source: str
    tests: Mapping[str, ElementTest]
    require: tuple[tuple[Bound, ...], ...]
    domain: Domain | None

    @property
    def needs_competitor(self) -> bool:
        """Whether some requirement divides by a competitor's figure."""
        return any(bound.metric.endswith("_ratio") for line in self.require for bound in line)

    def with_limits(self, **limits: float) -> Rules:
        """The same rules with the parameters rtol, atol, ulp of every element test replaced where given."""
        tests = {
            name: replace(
                test,
                rtol=limits.get("rtol", test.rtol) if test.rtol else 0.0,
                atol=limits.get("atol", test.atol) if test.atol else 0.0,
                ulp=limits.get("ulp", test.ulp) if test.ulp else 0.0,
            )
            for name, test in self.tests.items()
        }
        return replace(self, tests=tests, source=self.source + "; limits overridden by the caller")


@dataclass(frozen=True)
class Standard:
    """A named precision standard: title, public source and its raw table of limits per dtype."""

    name: str
    title: str
    source: str
    table: Mapping[str, Any]

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The rows of the limits table: dtype names, and "float" / "integer" for all others of that kind."""
        return tuple(self.table["limits"])

    def rules(self, dtype: np.dtype[Any]) -> Rules:
        """The rules for results of `dtype`. Raises StandardError where the standard has no limits for it."""
        limits = self._row(dtype)
        source = limits.get("source", self.source)
        if limits.get("exact"):
            return Rules(self.name, dtype.name, source, {}, ((Bound("unequal", "<=", 0.0),),), None)
        tests = {
            name: ElementTest(spec["form"], **{k: _number(v, limits) for k, v in spec.items() if k != "form"})
            for name, spec in self.table.get("tests", {}).items()
        }
        require = tuple(tuple(_bound(part, limits) for part in line.split(" or ")) for line in self.table["require"])
        domain = self.table.get("domain")
        chosen = Domain(**{k: _number(v, limits) for k, v in domain.items()}) if domain else None
        return Rules(self.name, dtype.name, source, tests, require, chosen)

    def _row(self, dtype: np.dtype[Any]) -> dict[str, Any]:
        limits = self.table["limits"]
        family = "float" if is_float(dtype) or dtype.kind == "c" else "integer" if is_integer(dtype) else ""
        name = {"complex64": "float32", "complex128": "float64"}.get(dtype.name, dtype.name)
        for key in (name, family):
            if key in limits:
                row = dict(limits[key])
                same = row.pop("same", None)
                return {**limits[same], **row} if same else row
        raise StandardError(
            f"standard {self.name!r} has no limits for {dtype.name}",
            cure=f"it covers {', '.join(limits)}; choose another of: {', '.join(standards())}",
        )


def standard(name: str) -> Standard:
    """The standard called `name` (aliases of other tools accepted). Raises StandardError for an unknown name."""
    found = standards().get(ALIASES.get(name, name))
    if found is None:
        raise StandardError(
            f"no precision standard called {name!r}{nearest(name, list(standards()))}",
            cure=f"known: {', '.join(standards())}",
        )
    return found


@cache
def standards() -> Mapping[str, Standard]:
    """Every known standard by name, in the order of the table."""
    raw = tomllib.loads(resources.files("toprope.testing").joinpath("standards.toml").read_text())
    result = {}
    for name, table in raw.items():
        if "like" in table:
            table = {**raw[table["like"]], **table}
        result[name] = Standard(name, table["title"], table["source"], table)
    return result


def readable(value: float) -> str:
    """`value` as a power of two where it is one below 1, else in six significant digits."""
    if 0 < value < 1:
        mantissa, exponent = np.frexp(value)
        if mantissa == 0.5:
            return f"2^{int(exponent) - 1}"
    return f"{value:.6g}"


def _bound(text: str, limits: Mapping[str, Any]) -> Bound:
    metric, relation, limit = text.split()
    return Bound(metric, relation, _number(limit, limits))


def _number(value: Any, limits: Mapping[str, Any]) -> float:
    """A number, a product with a power of two ("10*2^-13"), or the named limit."""
    if isinstance(value, int | float):
        return float(value)
    if value in limits:
        return _number(limits[value], {})
    found = re.fullmatch(r"(?:([\d.]+)\*)?2\^(-?\d+)", value)
    if found:
        return float(found[1] or 1) * 2.0 ** int(found[2])
    return float(value)

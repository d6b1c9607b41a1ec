"""Chips as data: one TOML file a chip, every group of numbers with its source and kind."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from toprope.commandline import nearest
from toprope.errors import BadChip
from toprope.inputs import numbers, reading, toml

_versions = count(1)  # chips with changed numbers differ by name, too: cost rows are kept by name
KINDS = ("documented", "measured", "derived", "assumed")


@dataclass(frozen=True)
class Cost:
    """A cost row: cycles = fixed + work x per_work[type] + bytes / bytes_per_cycle. The others: see docs/design/timing.md."""

    name: str
    kind: str
    source: str
    fixed: float = 0.0
    per_work: Mapping[str, float] | None = None
    bytes_per_cycle: float = 0.0
    latency: float = 0.0
    interval: float = 0.0
    row: float = 0.0
    odd_bytes_per_cycle: float = 0.0
    l2_unit_bytes: float = 512.0
    cold: float = 0.0
    cold_bytes_per_cycle: float = 0.0
    bank_passes: float = 1.0

    def per_work_of(self, source: str, target: str) -> float:
        """Cycles per unit of work for a source and target element type: the most exact row that exists, 0 where work costs nothing."""
        table = self.per_work or {}
        for key in (f"{source}_{target}", source, "any"):
            if key in table:
                return table[key]
        return 0.0


@dataclass(frozen=True)
class Soc:
    """A chip. `table` holds groups of numbers; units end the names (_bytes, _cycles, _ghz, _tbps)."""

    name: str
    table: dict[str, Any]

    def __hash__(self) -> int:
        return hash(self.name)

    def number(self, path: str) -> float:
        """The number at a dotted path, e.g. "spaces.ub_bytes". Raises BadChip naming the missing row: a cost is never silently zero."""
        node: Any = self.table
        for part in path.split("."):
            if not isinstance(node, dict) or part not in node:
                raise BadChip(
                    f"{self.name} has no number {path!r}", cure=f"add it, with its source, to soc/{self.name}.toml"
                )
            node = node[part]
        return float(node)

    def replaced(self, values: Mapping[str, float]) -> Soc:
        """The same chip with other numbers at these dotted paths. Raises BadChip where there is none."""
        table = _copied(self.table)
        for path, value in values.items():
            self.number(path)
            *groups, last = path.split(".")
            node = table
            for group in groups:
                node = node[group]
            node[last] = value
        return Soc(f"{self.name}+{next(_versions)}", table)

    def kind_of(self, path: str) -> str:
        """How well the number at a dotted path is known: documented, measured, derived or assumed. Raises BadChip."""
        self.number(path)
        return self._note(path, "kind")

    def source_of(self, path: str) -> str:
        """Where the number at a dotted path comes from. Raises BadChip."""
        self.number(path)
        return self._note(path, "source")

    def _note(self, path: str, what: str) -> str:
        found, node = "", self.table
        for part in path.split(".")[:-1]:
            node = node[part]
            found = node.get(what, found)
        if not found:
            raise BadChip(
                f"{path!r} of {self.name} has no {what}", cure=f"state it in the group, in soc/{self.name}.toml"
            )
        return str(found)

    def cost(self, name: str) -> Cost:
        """The cost row called `name`. Raises BadChip naming it."""
        row = _costs(self).get(name)
        if row is None:
            raise BadChip(
                f"{self.name} has no cost row {name!r}",
                cure=f"add rows.{name}, with its source, to a costs group of soc/{self.name}.toml",
            )
        return row

    def cost_names(self) -> list[str]:
        """Every cost row of this chip."""
        return sorted(_costs(self))

    def numbers(self) -> Iterator[str]:
        """The dotted path of every number that must have a source (everything except the architecture number)."""
        yield from _numbers(self.table, "")

    def bytes_of(self, space: str) -> int:
        """Size of an on-chip memory (ub l1 l0a l0b l0c bias fixbuf) of one core, in bytes."""
        return int(self.number(f"spaces.{space}_bytes"))

    @property
    def npu_arch(self) -> int:
        """The number behind __NPU_ARCH__: 2201 for A2/A3, 2002 for 310P."""
        return int(self.table["npu_arch"])

    @property
    def split(self) -> bool:
        """Cube and vector cores are separate (A2, A3, 950)."""
        return bool(self.table["split"])

    @property
    def aic(self) -> int:
        """Cube (or coupled) cores."""
        return int(self.number("cores.aic"))

    @property
    def aiv(self) -> int:
        """Vector cores."""
        return int(self.number("cores.aiv"))

    @property
    def ghz(self) -> float:
        """Clock of the AI cores, in GHz."""
        return self.number("clock.core_ghz")


def own_folder() -> Path:
    """Where chip files of the user lie (`toprope calibrate` writes them): toprope/soc in the folder for settings."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "toprope" / "soc"


def names() -> list[str]:
    """The chips there are files for, the user's own among them."""
    return sorted(p.stem for folder in (Path(__file__).parent, own_folder()) for p in folder.glob("*.toml"))


def file_of(name: str) -> Path | None:
    """The file of the chip called `name` (case does not matter), shipped or the user's own; None where there is none.

    A file whose name ends in x stands for a class: ascend950pr_9589 and ascend950pr_958b are of ascend950pr_958x (the vendor's
    platform_config names its files so).
    """
    stems = (name.lower(), f"{name.lower()[:-1]}x") if name.lower().startswith("ascend950") else (name.lower(),)
    files = (folder / f"{stem}.toml" for stem in stems for folder in (Path(__file__).parent, own_folder()))
    return next((file for file in files if file.exists()), None)


def _meant(name: str) -> str:
    """ ", did you mean X?" for a part of a chip's name, or a name close to one."""
    begun = [n for n in names() if name and n.removeprefix("ascend").startswith(name.lower().removeprefix("ascend"))]
    return f", did you mean {begun[0]!r}?" if begun else nearest(name, names())


@cache
def load(name: str) -> Soc:
    """The chip called `name` (case does not matter). Raises BadChip listing the known ones."""
    file = file_of(name)
    if file is None:
        raise BadChip(f"unknown chip {name!r}{_meant(name)}", cure="known chips: " + ", ".join(names()))
    table = toml(file, "correct or remove it", BadChip)
    with reading(file, "correct or remove it", BadChip):
        parent = table.pop("inherits", None)
        if parent is not None:
            if not isinstance(parent, str) or parent.lower() == name.lower():
                raise BadChip(f"inherits = {parent!r} is no other chip", cure="known chips: " + ", ".join(names()))
            inherited = _copied(load(parent).table)
            if table.pop("inherited_numbers_are_assumed", False):
                _assume(inherited, parent)
            _same_form(table, inherited, "")
            table = _merged(inherited, table)
        numbers(table, str(file), -1e15, BadChip)
        if not isinstance(table.get("arch"), str):
            raise BadChip(f"{file} states no arch", cure='write inherits = "ascend910b1", then what is different')
        return Soc(name.lower(), table)


def _same_form(own: Mapping[str, Any], inherited: Mapping[str, Any], place: str) -> None:
    """Raises BadChip where a chip states a value of another kind than the chip that it inherits from."""
    for key, value in own.items():
        known = inherited.get(key, value)
        if isinstance(known, dict) != isinstance(value, dict) or isinstance(known, str) != isinstance(value, str):
            raise BadChip(
                f"{place}{key} = {value!r} is another kind of value than in the chip that it inherits from",
                cure="`toprope socs NAME` shows the numbers",
            )
        if isinstance(value, dict):
            _same_form(value, known, f"{place}{key}.")


def compare(chips: Sequence[str] | None = None) -> list[list[str]]:
    """Rows of a table: a header (number, then one chip a column), then every number outside the cost rows, with its kind where assumed."""
    socs = [load(name) for name in (chips or names())]
    paths = list(dict.fromkeys(p for soc in socs for p in soc.numbers() if not p.startswith("costs.")))
    rows = [["", *(soc.name for soc in socs)], ["architecture", *(str(soc.table["arch"]) for soc in socs)]]
    return rows + [[path, *(_cell(soc, path) for soc in socs)] for path in paths]


def differences(before: str, after: str) -> list[list[str]]:
    """The numbers that two chips do not share, cost rows included: path, value of one, value of the other, as `compare` shows them."""
    one, other = load(before), load(after)
    paths = dict.fromkeys([*one.numbers(), *other.numbers()])
    rows = [[path, _cell(one, path), _cell(other, path)] for path in paths]
    return [row for row in rows if row[1].removesuffix(" ?") != row[2].removesuffix(" ?")]


def _cell(soc: Soc, path: str) -> str:
    try:
        value, kind = soc.number(path), soc.kind_of(path)
    except BadChip:
        return "–"
    return shown(value) + (" ?" if kind == "assumed" else "")


def shown(value: float) -> str:
    """A number of a chip as people read it: whole ones with every digit."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.6g}"


@cache
def _costs(soc: Soc) -> dict[str, Cost]:
    found: dict[str, Cost] = {}
    own = {
        "fixed",
        "bytes_per_cycle",
        "latency",
        "interval",
        "row",
        "odd_bytes_per_cycle",
        "l2_unit_bytes",
        "cold",
        "cold_bytes_per_cycle",
        "bank_passes",
    }
    for group in soc.table.get("costs", {}).values():
        for name, row in group.get("rows", {}).items():
            fields = {key: float(row[key]) for key in own & row.keys()}
            per_work = {key: float(value) for key, value in row.items() if key not in own}
            found[name] = Cost(name, str(group["kind"]), str(group["source"]), per_work=per_work or None, **fields)
    return found


def _numbers(node: Mapping[str, Any], prefix: str) -> Iterable[str]:
    for key, value in node.items():
        if isinstance(value, dict):
            yield from _numbers(value, f"{prefix}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool) and prefix:
            yield prefix + key


def _copied(node: Any) -> Any:
    return {key: _copied(value) for key, value in node.items()} if isinstance(node, dict) else node


def _assume(node: dict[str, Any], parent: str) -> None:
    """What is documented for one architecture is only an assumption for another."""
    if "source" in node and node.get("kind") != "assumed":
        node["kind"], node["source"] = "assumed", f"taken over from {parent}: {node['source']}"
    for value in node.values():
        if isinstance(value, dict):
            _assume(value, parent)


def _merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """A group that is stated anew replaces the inherited one; cost rows replace the inherited rows of the same name, wherever they stood."""
    costs, own = under.get("costs", {}), over.get("costs", {})
    stated = {name for group in own.values() for name in group.get("rows", {})}
    for group in costs.values():
        for name in stated & group.get("rows", {}).keys():
            del group["rows"][name]
    merged = {**under, **over}
    if costs or own:
        merged["costs"] = {**costs, **own}
    return merged

"""The host code of an operator project, called: what it defines, the shapes and types it infers, the tiling it computes."""

from __future__ import annotations

import ctypes as c
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from toprope.errors import BadArgument
from toprope.project.definition import builds_for
from toprope.project.errors import HostCrashed, InferFailed, ProjectError, TilingFailed
from toprope.project.ge_types import GE_TYPES, GeType
from toprope.soc import Soc

IGNORE, OPTIONAL, REQUIRED, DYNAMIC = 0, 1, 2, 3
TILING_CAPACITY_BYTES = 1 << 16
# Room that the vendor's library keeps for itself in front of the user's workspace, by architecture: 16 MB on A2 and A3, 2 MB on 310P.
LIBRARY_WORKSPACE_BYTES = {2201: 16 << 20, 2002: 2 << 20}


@dataclass(frozen=True)
class TensorDef:
    """A declared input or output; entry k of `dtypes` and `formats` of all tensors together is combination k."""

    name: str
    mode: int
    dtypes: tuple[GeType, ...]
    formats: tuple[int, ...]
    free_types: bool = False  # DataTypeList: goes with every combination of the others
    value_depends: bool = False
    follows: str = ""
    follow: int = 0
    depends_on_compute: bool = False
    initial: tuple[float, ...] | None = None

    def dtype(self, combination: int) -> GeType | None:
        """The element type in a combination; None if the definition leaves it open."""
        if not self.dtypes:
            return None
        return self.dtypes[0 if self.free_types or len(self.dtypes) == 1 else min(combination, len(self.dtypes) - 1)]

    def format(self, combination: int) -> int:
        """The format in a combination; ND if the definition leaves it open."""
        return self.formats[min(combination, len(self.formats) - 1)] if self.formats else 2


@dataclass(frozen=True)
class AttributeDef:
    """A declared attribute: kind is int, bool, float, string or a list_ of them."""

    name: str
    kind: str
    required: bool
    default: Any  # None: there is none


@dataclass(frozen=True)
class OperatorDef:
    """One operator as its host code declares and registers it."""

    type: str
    inputs: tuple[TensorDef, ...]
    outputs: tuple[TensorDef, ...]
    attributes: tuple[AttributeDef, ...]
    families: tuple[str, ...]
    defined: bool
    has_tiling: bool
    has_infer_shape: bool
    has_infer_type: bool
    needs_value: frozenset[int] = frozenset()
    family_tensors: Mapping[str, Mapping[str, tuple[TensorDef, ...]]] = field(default_factory=dict, repr=False)
    kernel_files: Mapping[str, str] = field(
        default_factory=dict
    )  # family of chips -> source in op_kernel, without .cpp
    kernel_entries: Mapping[str, str] = field(default_factory=dict)  # family of chips -> function in it

    def for_chip(self, chip: str) -> OperatorDef:
        """The definition with the inputs and outputs that one chip's configuration replaces."""
        family = next((f for f in self.families if builds_for(f, chip)), "")
        own = self.family_tensors.get(family, {})
        if not own.get("inputs") and not own.get("outputs"):
            return self
        return replace(
            self,
            inputs=_replaced(self.inputs, own.get("inputs", ())),
            outputs=_replaced(self.outputs, own.get("outputs", ())),
        )


def _replaced(old: tuple[TensorDef, ...], new: tuple[TensorDef, ...]) -> tuple[TensorDef, ...]:
    by_name = {t.name: t for t in new}
    kept = tuple(by_name.pop(t.name, t) for t in old)
    return (*kept, *by_name.values())


@dataclass(frozen=True)
class TilingField:
    """A field of macro-defined tiling data."""

    name: str
    type: str
    count: int
    offset: int
    nested: bool


@dataclass(frozen=True)
class TilingClass:
    """A class of macro-defined tiling data, and the operator (or operator_key) it is registered for; "" if only nested."""

    key: str
    name: str
    bytes: int
    fields: tuple[TilingField, ...]
    place: str


@dataclass(frozen=True)
class TensorValue:
    """An actual tensor: shape, element type, format number, and its value where host code may look at it."""

    shape: tuple[int, ...]
    dtype: GeType
    format: int = 2
    value: np.ndarray[Any, Any] | None = None


@dataclass(frozen=True)
class Problem:
    """One description of a call: for each declared input and output its tensors (none: left out), and the attributes in order."""

    inputs: Sequence[Sequence[TensorValue]]
    outputs: Sequence[Sequence[TensorValue]]
    attributes: Sequence[tuple[AttributeDef, Any]]
    deterministic: bool = False


@dataclass(frozen=True)
class Tiling:
    """What a tiling function decided: the key, the blocks to start, workspaces and tiling data in bytes, and the data's fields by name."""

    key: int
    block_dim: int
    workspaces: tuple[int, ...]
    data: bytes = field(repr=False)
    struct: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    schedule_mode: int = 0
    local_memory_bytes: int = 0
    need_atomic: bool = False
    log: tuple[str, ...] = field(default=(), repr=False)

    @property
    def workspace_bytes(self) -> int:
        """All workspaces together."""
        return sum(self.workspaces)


_CHIP_NUMBERS = (
    "npu_arch split aic aiv ub_bytes l1_bytes l0a_bytes l0b_bytes l0c_bytes bias_bytes fixbuf_bytes l2_bytes gm_bytes "
    "l2_bytes_per_cycle gm_bytes_per_cycle library_workspace_bytes"
)


class _Chip(c.Structure):
    _fields_ = [("name", c.c_char * 32), *((name, c.c_uint64) for name in _CHIP_NUMBERS.split())]


class HostLibrary:
    """The compiled host code of one project. Host code keeps state of its own, so one library serves one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._lib = lib = c.CDLL(str(path))
        for name in ("operators", "log", "infer", "tiling"):
            getattr(lib, f"toprope_host_{name}").restype = c.c_char_p
        lib.toprope_host_begin.restype = c.c_void_p
        lib.toprope_host_tiling_data.restype = c.c_void_p
        listed = json.loads(lib.toprope_host_operators().decode(errors="replace"))
        self.operators = {o["type"]: _operator(o) for o in listed["operators"]}
        self.tilings = tuple(_tiling_class(t) for t in listed["tilings"])

    def infer(self, of: OperatorDef, problem: Problem, soc: Soc) -> list[tuple[tuple[int, ...], GeType]]:
        """Shape and element type of every output. Raises InferFailed, HostCrashed."""
        call = self._begin(of, problem, soc)
        try:
            answer = json.loads(self._lib.toprope_host_infer(c.c_void_p(call)).decode(errors="replace"))
            self._judge(of, answer, InferFailed, _describe(of, problem))
            return [(tuple(o["shape"]), GE_TYPES.get(o["dtype"], GE_TYPES[28])) for o in answer["outputs"]]
        finally:
            self._lib.toprope_host_end(c.c_void_p(call))

    def tiling(self, of: OperatorDef, problem: Problem, soc: Soc) -> Tiling:
        """Run the operator's tiling function. Raises TilingFailed, HostCrashed."""
        call = self._begin(of, problem, soc)
        try:
            said = self._lib.toprope_host_tiling(c.c_void_p(call), c.c_uint64(TILING_CAPACITY_BYTES))
            answer = json.loads(said.decode(errors="replace"))
            self._judge(of, answer, TilingFailed, _describe(of, problem))
            if answer["bytes"] > answer["capacity"]:
                raise TilingFailed(
                    f"{of.type}: the tiling function set a data size of {answer['bytes']} bytes, more than the {answer['capacity']} there are",
                    cure="pass GetRawTilingData()->SetDataSize the size of what was written",
                )
            data = c.string_at(self._lib.toprope_host_tiling_data(c.c_void_p(call)), answer["bytes"])
            return Tiling(
                answer["key"],
                answer["blocks"],
                tuple(answer["workspaces"]),
                data,
                answer["struct"],
                schedule_mode=answer["schedule_mode"],
                local_memory_bytes=answer["local_memory_bytes"],
                need_atomic=bool(answer["need_atomic"]),
                log=tuple(f"{level} {text} ({place})" for level, text, place in self._log()),
            )
        finally:
            self._lib.toprope_host_end(c.c_void_p(call))

    def _log(self) -> list[tuple[str, str, str]]:
        """Level, text and place of what host code logged in the present call."""
        rows = []
        for row in self._lib.toprope_host_log().decode(errors="replace").split("\x1e"):
            parts = row.split("\x1f")
            if len(parts) == 5:
                named = f"{parts[1]}: {parts[4]}" if parts[1] else parts[4]
                rows.append((parts[0], named, f"{Path(parts[2]).name}:{parts[3]}"))
        return rows

    def _judge(self, of: OperatorDef, answer: dict[str, Any], kind: type[ProjectError], described: str) -> None:
        """Raise what the answer's status stands for, with the errors that were logged."""
        if not answer["failed"]:
            return
        said = [f"{text} ({place})" for level, text, place in self._log() if level == "ERROR"]
        logged = "\n".join(f"  {line}" for line in said[-6:])
        where = f"\n{logged}" if logged else "\n  it logged no error"
        if answer["problem"]:
            raise HostCrashed(
                f"{answer['step']} of {of.type} did not end: {answer['problem']}; it was called with {described}"
                + (where if said else ""),
                cure="check pointers for null and divisors for zero before they are used",
            )
        raise kind(
            f"{answer['step']} of {of.type} returned {answer['status']:#x} for {described}{where}",
            cure="do what the logged line says, or correct the check there"
            if said
            else "give shapes, types and attributes that the function accepts, or log what is wrong with ASC_CPU_LOG_ERROR",
        )

    def _begin(self, of: OperatorDef, problem: Problem, soc: Soc) -> int:
        lib = self._lib
        lib.toprope_host_clear_log()
        lib.toprope_host_set_chip(c.byref(chip_numbers(soc)))
        counts = [(c.c_uint32 * max(1, len(group)))(*map(len, group)) for group in (problem.inputs, problem.outputs)]
        call = lib.toprope_host_begin(
            of.type.encode(),
            counts[0],
            len(problem.inputs),
            counts[1],
            len(problem.outputs),
            int(problem.deterministic),
        )
        for is_output, group in enumerate((problem.inputs, problem.outputs)):
            for tensor in (t for declared in group for t in declared):
                dims = (c.c_int64 * max(1, len(tensor.shape)))(*tensor.shape)
                data = tensor.value.ctypes.data if tensor.value is not None else None
                lib.toprope_host_tensor(
                    c.c_void_p(call),
                    is_output,
                    tensor.dtype.number,
                    tensor.format,
                    dims,
                    len(tensor.shape),
                    c.c_void_p(data),
                )
        for attribute, value in problem.attributes:
            _pass_attribute(lib, call, attribute, value)
        return int(call)


def _pass_attribute(lib: c.CDLL, call: int, attribute: AttributeDef, value: Any) -> None:
    at = c.c_void_p(call)
    if value is None:
        lib.toprope_host_absent(at)
        return
    element = {"int": np.int64, "bool": np.bool_, "float": np.float32}
    kind = attribute.kind
    try:
        if kind == "string":
            text = str(value).encode()
            lib.toprope_host_value(at, text, c.c_uint64(len(text)))
        elif kind in element:
            data: np.ndarray[Any, Any] = np.array(value, dtype=element[kind])
            lib.toprope_host_value(at, c.c_void_p(data.ctypes.data), c.c_uint64(data.nbytes))
        elif kind == "list_list_int":
            rows = [np.asarray(row, np.int64).reshape(-1) for row in value]
            flat = np.concatenate([*rows, np.zeros(1, np.int64)])
            sizes = (c.c_uint64 * max(1, len(rows)))(*map(len, rows))
            lib.toprope_host_lists(at, c.c_void_p(flat.ctypes.data), sizes, c.c_uint64(len(rows)))
        else:
            data = np.asarray(value, dtype=element[kind.removeprefix("list_")]).reshape(-1)
            lib.toprope_host_list(at, c.c_void_p(data.ctypes.data), c.c_uint64(data.size), c.c_uint64(data.itemsize))
    except (TypeError, ValueError, OverflowError) as error:
        raise BadArgument(f"attribute {attribute.name} is a {kind} and got {value!r}", cure=str(error)) from None


def chip_numbers(soc: Soc) -> c.Structure:
    """The chip as host code sees it (ascendc/host/state.h, Chip)."""
    name = "Ascend" + soc.name.removeprefix("ascend").upper()
    cores = max(1, soc.aic)
    return _Chip(
        name.encode(),
        soc.npu_arch,
        soc.split,
        soc.aic,
        soc.aiv if soc.split else int(soc.table["cores"].get("extra_vector_cores", 0)),
        *(soc.bytes_of(s) for s in ("ub", "l1", "l0a", "l0b", "l0c", "bias", "fixbuf")),
        int(soc.number("memory.l2_bytes")),
        int(soc.number("memory.gm_bytes")),
        int(soc.number("l2.read_tbps") * 1e12 / (soc.ghz * 1e9) / cores),
        int(soc.number("hbm.read_tbps") * 1e12 / (soc.ghz * 1e9) / cores),
        LIBRARY_WORKSPACE_BYTES.get(soc.npu_arch, 16 << 20),
    )


def _describe(of: OperatorDef, problem: Problem) -> str:
    parts = []
    for definition, tensors in zip(of.inputs, problem.inputs, strict=False):
        said = ", ".join(f"{t.dtype.name.lower()}{list(t.shape)}" for t in tensors) or "nothing"
        parts.append(f"{definition.name}={'[' + said + ']' if definition.mode == DYNAMIC else said}")
    parts += [f"{a.name}={value!r}" for a, value in problem.attributes]
    return ", ".join(parts) or "no inputs"


def _operator(row: dict[str, Any]) -> OperatorDef:
    configs = row.get("configs", [])
    needs = set(row["tiling_needs_value"]) | set(row["shape_needs_value"])
    return OperatorDef(
        type=row["type"],
        inputs=_tensors(row.get("inputs", [])),
        outputs=_tensors(row.get("outputs", [])),
        attributes=tuple(_attribute(a) for a in row.get("attributes", [])),
        families=tuple(dict.fromkeys(g["chip"] for g in configs)),
        defined=bool(row["defined"]),
        has_tiling=bool(row["tiling"]),
        has_infer_shape=bool(row["infer_shape"]),
        has_infer_type=bool(row["infer_type"]),
        needs_value=frozenset(needs),
        family_tensors={g["chip"]: {k: _tensors(g[k]) for k in ("inputs", "outputs")} for g in configs},
        kernel_files=_extended(configs, "opFile.value"),
        kernel_entries=_extended(configs, "opInterface.value"),
    )


def _extended(configs: list[dict[str, Any]], key: str) -> dict[str, str]:
    return {g["chip"]: g["extended"][key] for g in configs if key in g["extended"]}


def _tensors(rows: list[dict[str, Any]]) -> tuple[TensorDef, ...]:
    found: dict[str, TensorDef] = {}
    for row in rows:
        followed = found.get(row["follows"])
        types = tuple(GE_TYPES[n] for n in row["dtypes"] if n in GE_TYPES)
        formats = tuple(row["formats"])
        if followed is not None and not types and row["follow"] in (0, 1):
            types = followed.dtypes
        if followed is not None and not formats and row["follow"] in (0, 2):
            formats = followed.formats
        found[row["name"]] = TensorDef(
            row["name"],
            row["type"],
            types,
            formats,
            bool(row["free_types"]) or (followed is not None and followed.free_types and not row["dtypes"]),
            row["value_depends"] != IGNORE,
            row["follows"],
            row["follow"],
            bool(row["depends_on_compute"]),
            tuple(row["initial"]) if row["initialised"] else None,
        )
    return tuple(found.values())


def _attribute(row: dict[str, Any]) -> AttributeDef:
    kind = row["kind"] or "int"
    default: Any = None
    if row["has_default"]:
        if kind == "string":
            default = row["text"]
        elif kind == "list_list_int":
            default = row["rows"]
        else:
            values = row["numbers"] if "float" in kind else row["integers"]
            default = values if kind.startswith("list_") else values[0]
            if kind in ("bool", "float"):
                default = {"bool": bool, "float": float}[kind](default)
    return AttributeDef(row["name"], kind, row["type"] == REQUIRED, default)


def _tiling_class(row: dict[str, Any]) -> TilingClass:
    fields = tuple(TilingField(f["name"], f["type"], f["count"], f["offset"], bool(f["nested"])) for f in row["fields"])
    return TilingClass(row["key"], row["name"], row["bytes"], fields, f"{Path(row['file']).name}:{row['line']}")

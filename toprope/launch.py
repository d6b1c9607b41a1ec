"""Launch descriptions: which arguments a kernel gets. One grammar for the command line and for the launch file beside a kernel.

docs/launch.md is the manual of what is read here.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from toprope import dtypes, expression, inputs, tiling
from toprope.commandline import nearest
from toprope.errors import BadArgument, BadInput
from toprope.kernel import DEFAULT_SOC, Kernel
from toprope.soc import load as load_soc

MOST_BLOCKS = 65535  # a trace numbers blocks in 16 bits
_SHAPED = re.compile(r"^(?P<dtype>\w+)\s*\[(?P<shape>[\d\s,*]*)\]\s*(?P<fill>.*)$")
_FILL = re.compile(r"^(?P<name>\w+)\s*(?:\((?P<numbers>[^)]*)\))?$")
FILLS = (
    "out",
    "zeros",
    "ones",
    "full(v)",
    "arange",
    "normal(mean, deviation)",
    "uniform(low, high)",
    "integers(low, high)",
)


@dataclass
class LaunchFile:
    """How to launch one kernel: blocks, chip, argument specifications by name, and references for its outputs."""

    blocks: int = 1
    soc: str = DEFAULT_SOC
    tiling_key: int = 0
    seed: int = 0
    standard: str = "mixed"
    arguments: dict[str, Any] = field(default_factory=dict)
    reference: dict[str, str] = field(default_factory=dict)
    folder: Path = Path()


def _tables(path: Path) -> dict[str, Any]:
    """The tables of a launch file; none if there is no such file. Raises BadInput."""
    if not path.exists():
        return {}
    return inputs.toml(
        path, 'correct it; texts stand in quotes (x = "half[8, 2048]"); docs/launch.md shows a complete launch file'
    )


def described(path: Path) -> list[str]:
    """The kernels that a launch file describes. Raises BadInput for a file that is no TOML."""
    return [name for name, table in _tables(path).items() if isinstance(table, dict)]


def read(path: Path, entry: str) -> LaunchFile:
    """The table [entry] of a launch file (TOML); an empty description if there is no such file. Raises BadInput."""
    table = _tables(path).get(entry, {})
    if not isinstance(table, dict):
        raise BadInput(f"{path}: {entry} is no table", cure=f"write [{entry}], then its keys (docs/launch.md)")
    known = set(LaunchFile.__dataclass_fields__) - {"folder"}
    unknown = set(table) - known
    if unknown:
        raise BadInput(
            f"{path}: [{entry}] has unknown keys {', '.join(sorted(unknown))}{nearest(min(unknown), sorted(known))}",
            cure="known keys: " + ", ".join(sorted(known)),
        )
    for key, value in table.items():
        wanted = type(getattr(LaunchFile(), key))
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise BadInput(
                f"{path}: [{entry}] {key} = {value!r} is no {_WORDS[wanted]}",
                cure="docs/launch.md shows a complete launch file",
            )
    references = table.get("reference", {})
    if bad := [n for n, v in references.items() if not isinstance(v, str)]:
        raise BadInput(f"{path}: [{entry}.reference] {bad[0]} is no text", cure=f'write {bad[0]} = "x + y"')
    return LaunchFile(folder=path.parent, **table)


_WORDS: dict[type, str] = {int: "whole number", str: "text", dict: "table"}


def check(kernel: Kernel, launch: LaunchFile) -> None:
    """Raises BadInput, BadArgument, BadChip for a value that no launch can have."""
    if not 1 <= launch.blocks <= MOST_BLOCKS:
        raise BadInput(f"{launch.blocks} blocks: a launch has 1 to {MOST_BLOCKS}", cure="for example blocks = 8")
    if launch.seed < 0:
        raise BadInput(f"seed {launch.seed} is negative", cure="give 0 or more")
    if not 0 <= launch.tiling_key < 1 << 64:
        raise BadInput(f"tiling key {launch.tiling_key} is no unsigned 64-bit number", cure="give 0 or more")
    load_soc(launch.soc)
    pointers = [p.name for p in kernel.entry.parameters if p.is_pointer]
    for name in launch.reference:
        if name not in pointers:
            raise BadInput(
                f"a reference for {name!r}, which is no array argument of {kernel.name}",
                cure="its arrays are " + ", ".join(pointers),
            )


def parse_value(text: str) -> Any:
    """A command-line value: a number, `null`, a TOML table, or a specification as in a launch file."""
    if text == "null":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text


def arguments(kernel: Kernel, launch: LaunchFile) -> dict[str, Any]:
    """The argument values in the order of the signature. Raises BadArgument for a missing, unknown or malformed one."""
    names = [p.name for p in kernel.entry.parameters]
    unknown = set(launch.arguments) - set(names)
    if unknown:
        raise BadArgument(
            f"{kernel.name} has no argument {', '.join(sorted(unknown))}{nearest(min(unknown), names)}",
            cure=f"its signature is {kernel.entry.signature}",
        )
    missing = [n for n in names if n not in launch.arguments]
    if missing:
        example = dict(_example_arguments(kernel))[missing[0]]
        raise BadArgument(
            f"no value for {', '.join(missing)}",
            cure=f"give one: {missing[0]}='{example}' on the command line, or {missing[0]} = \"{example}\" below [{kernel.name}.arguments]",
        )
    rng = np.random.default_rng(launch.seed)
    return {n: argument(n, launch.arguments[n], rng, launch.folder) for n in names}


def references(launch: LaunchFile, inputs: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Golden arrays by output name, computed in float64 (integers exactly) from copies of the inputs. Raises BadInput."""
    wide = {n: _widen(v) for n, v in inputs.items()}
    out = {}
    for name, text in launch.reference.items():
        if match := re.match(r"^([^:\n]+\.py):(\w+)$", text.strip()):
            value = _call(launch.folder / match.group(1), match.group(2), name, wide)
        elif match := re.match(r"^@(\S+)$", text.strip()):
            value = argument(name, text, np.random.default_rng(0), launch.folder)
        else:
            try:
                value = expression.evaluate(text, wide)
            except BadInput as e:
                raise BadInput(f"reference of {name}: {e.message}", cure=e.cure) from None
        out[name] = _numbers(name, value)
    return out


def shaped(spec: Any) -> tuple[str, tuple[int, ...], str] | None:
    """Element type, shape and fill of a specification like 'half[8, 2048] arange'; None for any other value."""
    match = _SHAPED.match(spec.strip()) if isinstance(spec, str) else None
    if match is None:
        return None
    shape = tuple(int(n) for n in re.split(r"[,*\s]+", match["shape"].strip()) if n)
    return match["dtype"], shape, match["fill"].strip()


def outputs(launch: LaunchFile) -> tuple[str, ...]:
    """The arguments that are described as `out`: they hold nothing before the launch."""
    return tuple(name for name, spec in launch.arguments.items() if (parts := shaped(spec)) and parts[2] == "out")


def _numbers(name: str, value: Any) -> np.ndarray[Any, Any]:
    try:
        array = np.asarray(value)
    except ValueError as e:
        raise BadInput(f"reference of {name} is no array: {e}", cure="return one array") from None
    if array.dtype.kind not in "biufV":
        raise BadInput(f"reference of {name} holds {array.dtype}, no real numbers", cure="return an array of numbers")
    return array


def _call(file: Path, function: str, name: str, inputs: Mapping[str, Any]) -> Any:
    reference = _function(file, function)
    try:
        return reference(**inputs)
    except Exception as e:
        raise BadInput(
            f"reference of {name}: {file.name}:{function} fails with {type(e).__name__}: {e}",
            cure="it gets all arguments of the kernel by name and returns an array",
        ) from None


def example_command(kernel: Kernel) -> str:
    """A complete command for a kernel whose arguments nobody has described yet."""
    quoted = (f"{n}={v}" if v.isdigit() else f"{n}='{v}'" for n, v in _example_arguments(kernel))
    return f"toprope run {kernel.path}:{kernel.name} --blocks 8 {' '.join(quoted)}"


def _example_arguments(kernel: Kernel) -> Iterator[tuple[str, str]]:
    pointers = [
        p for p in kernel.entry.parameters if p.is_pointer and p.name not in ("workspace", "usrWorkspace", "tiling")
    ]
    outputs = [p.name for p in pointers if re.search(r"^(out|dst|result)|out|res$", p.name, re.I)]
    outputs = outputs or [p.name for p in pointers[-1:]]
    for p in kernel.entry.parameters:
        if p.name in ("workspace", "usrWorkspace"):
            yield p.name, "uint8[1048576] zeros"
        elif p.name == "tiling":
            yield p.name, tiling.example(kernel.path)
        elif p.is_pointer:
            yield p.name, f"{p.element or _guess_element(kernel)}[8, 2048]{' out' if p.name in outputs else ''}"
        else:
            yield p.name, "16384"


def _guess_element(kernel: Kernel) -> str:
    found = re.search(r"GlobalTensor\s*<\s*(\w+)\s*>", kernel.path.read_text(errors="replace"))
    return found.group(1) if found and found.group(1) in {n for d in dtypes.DTYPES for n in (d.name, d.cpp)} else "half"


def argument(name: str, spec: Any, rng: np.random.Generator, folder: Path) -> Any:
    """What a specification stands for: an array, None, a number, a mapping of fields. Raises BadArgument."""
    if spec is None or isinstance(spec, int | float | bool | Mapping):
        return spec
    if isinstance(spec, Sequence) and not isinstance(spec, str):
        return _listed(name, spec)
    text = str(spec).strip()
    if text == "null":
        return None
    if text.startswith("@"):
        return _from_file(name, text[1:], folder)
    match = _SHAPED.match(text)
    if match is None:
        raise BadArgument(
            f"argument {name}: cannot read {text!r}",
            cure="write e.g. 'half[8, 2048]', 'int32[100] arange', 'float[64] out', '@input.npy', or a number",
        )
    kind = _element(name, match["dtype"])
    return _filled(name, kind, _shape(name, match, kind), match["fill"].strip(), rng)


def _element(name: str, word: str) -> np.dtype[Any]:
    try:
        kind = dtypes.dtype(word).numpy
    except BadArgument as error:
        raise BadArgument(f"argument {name}: {error.message}", cure=error.cure) from None
    if kind is None:
        raise BadArgument(f"argument {name}: {word} has no array form", cure="give the packed bytes as uint8")
    return kind


def _listed(name: str, spec: Sequence[Any]) -> np.ndarray[Any, Any]:
    try:
        array = np.array(spec)
    except (ValueError, OverflowError):
        array = np.array(None)
    if array.dtype.kind not in "biuf":
        raise BadArgument(
            f"argument {name}: {spec!r} is no array of numbers", cure="all rows of a list have the same length"
        )
    return array


def _shape(name: str, match: re.Match[str], kind: np.dtype[Any]) -> tuple[int, ...]:
    """The shape in a specification. Raises BadArgument for one that this machine has no memory for."""
    shape = tuple(int(n[:30]) for n in re.split(r"[,*\s]+", match["shape"].strip()) if n)
    size_bytes = math.prod(shape) * kind.itemsize
    if size_bytes > _memory_bytes() or len(shape) > 32:
        raise BadArgument(
            f"argument {name}: {match['dtype']}[{match['shape']}] needs {size_bytes / 2**30:,.1f} GiB, this machine has "
            f"{_memory_bytes() / 2**30:,.1f}",
            cure="give a smaller shape",
        )
    return shape


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 64 << 30


def _filled(
    name: str, kind: np.dtype[Any], shape: tuple[int, ...], fill: str, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    count = math.prod(shape)
    match = _FILL.match(fill or "default")
    word = match["name"] if match else ""
    texts = [n for n in (match["numbers"] or "").split(",") if n.strip()] if match else []
    numbers = [n for n in map(_number, texts) if n is not None]
    if word == "default":
        word, numbers = (
            ("integers", [0, 2] if kind.kind == "b" else [0 if kind.kind == "u" else -100, 100])
            if kind.kind in "iub"
            else ("uniform", [-1, 1])
        )
    if word == "out" and not numbers:
        # Outputs start as NaN or all ones, so that an element the kernel forgets is seen.
        return np.frombuffer(b"\xff" * (count * kind.itemsize), kind).copy().reshape(shape)
    makers: dict[str, Any] = {
        "zeros": lambda: np.zeros(count, kind),
        "ones": lambda: np.ones(count, kind),
        "full": lambda v: np.full(count, v),
        "arange": lambda start=0, step=1: start + step * np.arange(count),
        "normal": lambda mean=0, deviation=1: rng.normal(mean, deviation, count),
        "uniform": lambda low=-1, high=1: rng.uniform(low, high, count),
        "integers": lambda low, high: rng.integers(low, high, count),
    }
    if word not in makers or (texts and len(numbers) != len(texts)):
        raise BadArgument(f"argument {name}: unknown fill {fill!r}", cure="fills are " + ", ".join(FILLS))
    if word in ("uniform", "integers") and len(numbers) == 2 and not numbers[0] < numbers[1]:
        raise BadArgument(
            f"argument {name}: {fill}: the first bound is not below the second", cure="write low, then high"
        )
    try:
        values = np.asarray(makers[word](*numbers))
    except (TypeError, ValueError, OverflowError) as e:
        raise BadArgument(f"argument {name}: fill {fill!r}: {e}", cure="fills are " + ", ".join(FILLS)) from None
    return _fitting(name, fill, values, kind).reshape(shape)


def _number(text: str) -> int | float | None:
    for read_as in (int, float):
        try:
            return read_as(text)
        except ValueError:
            continue
    return None


def _fitting(name: str, fill: str, values: np.ndarray[Any, Any], kind: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The values as `kind`. Raises BadArgument if its range does not hold them."""
    if values.dtype == kind or not values.size:
        return values.astype(kind)
    low, high = values.min(), values.max()
    limits = (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max) if kind.kind in "iu" else None
    with np.errstate(over="ignore", invalid="ignore"):
        out = values.astype(kind)
        lost = np.isfinite(values).all() and not np.isfinite(out.astype(np.float64)).all()
    if (limits and not (limits[0] <= low and high <= limits[1])) or (not limits and lost):
        raise BadArgument(
            f"argument {name}: {fill or 'the fill'} gives {low} to {high}, which {kind} cannot hold",
            cure=f"give values from {limits[0]} to {limits[1]}" if limits else "give smaller values",
        )
    return out


def _from_file(name: str, text: str, folder: Path) -> np.ndarray[Any, Any]:
    file_text, _, shaped = text.partition(":")
    file = next((f for f in (Path(file_text), folder / file_text) if f.is_file()), None)
    if file is None:
        raise BadArgument(
            f"argument {name}: there is no file {file_text}",
            cure="paths are relative to the current folder or to the launch file",
        )
    if file.suffix == ".npy":
        try:
            return np.ascontiguousarray(np.load(file))
        except Exception as e:  # a damaged header makes NumPy raise almost anything
            raise BadArgument(
                f"argument {name}: {file} is not a NumPy file: {str(e).splitlines()[0] if str(e) else type(e).__name__}",
                cure="save it with numpy.save",
            ) from None
    match = _SHAPED.match(shaped.strip())
    if match is None:
        raise BadArgument(
            f"argument {name}: a raw file needs its type and shape", cure=f"write @{file_text}:half[8, 2048]"
        )
    kind = _element(name, match["dtype"])
    shape = _shape(name, match, kind)
    wanted = math.prod(shape) * kind.itemsize
    if file.stat().st_size != wanted:
        raise BadArgument(
            f"argument {name}: {file} holds {file.stat().st_size} bytes, {match['dtype']}[{match['shape']}] needs {wanted}",
            cure="correct the shape or the file",
        )
    raw = np.fromfile(file, np.uint8)
    return raw.view(kind).reshape(shape)


def _widen(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind in "iub":
        return value.astype(np.int64) if value.dtype.kind != "b" else value.copy()
    return value.astype(np.float64)


def _function(file: Path, name: str) -> Any:
    if not file.is_file():
        raise BadInput(f"there is no file {file}", cure="references are Python files relative to the launch file")
    space: dict[str, Any] = {"__name__": "reference", "__file__": str(file)}
    try:
        exec(compile(file.read_bytes(), str(file), "exec"), space)  # the file was named as code: docs/security.md
    except Exception as e:
        line = (
            e.lineno
            if isinstance(e, SyntaxError)
            else getattr(e.__traceback__ and e.__traceback__.tb_next, "tb_lineno", None)
        )
        where = f"{file}:{line}" if line else str(file)
        raise BadInput(f"{where}: {type(e).__name__}: {e}", cure="correct the reference") from None
    if name not in space:
        raise BadInput(
            f"{file} defines no function {name}", cure="it has " + ", ".join(k for k, v in space.items() if callable(v))
        )
    return space[name]

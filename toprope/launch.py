"""Launch descriptions: which arguments a kernel gets. One grammar for the command line and for the launch file beside a kernel.

docs/launch.md is the manual of what is read here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from toprope import dtypes, tiling
from toprope.errors import BadArgument, BadInput
from toprope.kernel import DEFAULT_SOC, Kernel

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


def read(path: Path, entry: str) -> LaunchFile:
    """The table [entry] of a launch file (TOML); an empty description if there is no such file. Raises BadInput."""
    if not path.is_file():
        return LaunchFile(folder=path.parent)
    try:
        tables = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise BadInput(
            f"{path} is not valid TOML: {e}", cure="correct it; docs/launch.md shows a complete launch file"
        ) from None
    table = tables.get(entry, {})
    known = set(LaunchFile.__dataclass_fields__) - {"folder"}
    unknown = set(table) - known
    if unknown:
        raise BadInput(
            f"{path}: [{entry}] has unknown keys {', '.join(sorted(unknown))}",
            cure="known keys: " + ", ".join(sorted(known)),
        )
    return LaunchFile(folder=path.parent, **table)


def parse_value(text: str) -> Any:
    """A command-line value: a number, `null`, a TOML table, or a specification as in a launch file."""
    if text == "null":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def arguments(kernel: Kernel, launch: LaunchFile) -> dict[str, Any]:
    """The argument values in the order of the signature. Raises BadArgument for a missing, unknown or malformed one."""
    names = [p.name for p in kernel.entry.parameters]
    unknown = set(launch.arguments) - set(names)
    if unknown:
        raise BadArgument(
            f"{kernel.name} has no argument {', '.join(sorted(unknown))}",
            cure=f"its signature is {kernel.entry.signature}",
        )
    missing = [n for n in names if n not in launch.arguments]
    if missing:
        raise BadArgument(f"no value for {', '.join(missing)}", cure=f"for example: {example_command(kernel)}")
    rng = np.random.default_rng(launch.seed)
    return {n: _value(n, launch.arguments[n], rng, launch.folder) for n in names}


def references(launch: LaunchFile, inputs: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Golden arrays by output name, computed in float64 (integers exactly) from copies of the inputs. Raises BadInput."""
    wide = {n: _widen(v) for n, v in inputs.items()}
    out = {}
    for name, text in launch.reference.items():
        if match := re.match(r"^([\w./-]+\.py):(\w+)$", text.strip()):
            out[name] = np.asarray(_function(launch.folder / match.group(1), match.group(2))(**wide))
            continue
        if match := re.match(r"^@(\S+)$", text.strip()):
            out[name] = np.asarray(_value(name, text, np.random.default_rng(0), launch.folder))
            continue
        try:
            out[name] = np.asarray(eval(text, {"np": np, **wide}))
        except Exception as e:
            raise BadInput(
                f"reference of {name}: {text!r} fails with {type(e).__name__}: {e}",
                cure="it is a NumPy expression over the argument names",
            ) from None
    return out


def outputs(launch: LaunchFile) -> tuple[str, ...]:
    """The arguments that are described as `out`: they hold nothing before the launch."""
    return tuple(
        name
        for name, spec in launch.arguments.items()
        if isinstance(spec, str) and (match := _SHAPED.match(spec.strip())) and match["fill"].strip() == "out"
    )


def example_command(kernel: Kernel) -> str:
    """A complete command for a kernel whose arguments nobody has described yet."""
    parts = []
    pointers = [p for p in kernel.entry.parameters if p.is_pointer]
    outputs = [p.name for p in pointers if re.search(r"^(z|y|out|dst|result|c)|out", p.name, re.I)] or [
        p.name for p in pointers[-1:]
    ]
    if len(pointers) > 1 and pointers[0].name in outputs:
        outputs.remove(pointers[0].name)
    for p in kernel.entry.parameters:
        if p.name in ("workspace", "usrWorkspace"):
            parts.append(f"{p.name}='uint8[1048576] zeros'")
        elif p.name == "tiling":
            parts.append(f"{p.name}='{tiling.example(kernel.path)}'")
        elif p.is_pointer:
            kind = p.element or _guess_element(kernel)
            parts.append(f"{p.name}='{kind}[8, 2048]{' out' if p.name in outputs else ''}'")
        else:
            parts.append(f"{p.name}=16384")
    return f"toprope run {kernel.path}:{kernel.name} --blocks 8 {' '.join(parts)}"


def _guess_element(kernel: Kernel) -> str:
    found = re.search(r"GlobalTensor\s*<\s*(\w+)\s*>", kernel.path.read_text(errors="replace"))
    return found.group(1) if found and found.group(1) in {n for d in dtypes.DTYPES for n in (d.name, d.cpp)} else "half"


def _value(name: str, spec: Any, rng: np.random.Generator, folder: Path) -> Any:
    if spec is None or isinstance(spec, int | float | bool | Mapping):
        return spec
    if isinstance(spec, Sequence) and not isinstance(spec, str):
        return np.array(spec)
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
    kind = dtypes.dtype(match["dtype"]).numpy
    if kind is None:
        raise BadArgument(f"argument {name}: {match['dtype']} has no array form", cure="pass the packed bytes as uint8")
    shape = tuple(int(n) for n in re.split(r"[,*\s]+", match["shape"].strip()) if n)
    return _filled(name, kind, shape, match["fill"].strip(), rng)


def _filled(
    name: str, kind: np.dtype[Any], shape: tuple[int, ...], fill: str, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    count = int(np.prod(shape, dtype=np.int64))
    match = _FILL.match(fill or "default")
    try:
        numbers = [float(n) for n in (match["numbers"] or "").split(",") if n.strip()] if match else []
    except ValueError:
        match = None
    integer = kind.kind in "iub"
    word = match["name"] if match else ""
    if word == "default":
        word, numbers = (
            ("integers", [0, 2] if kind.kind == "b" else [0 if kind.kind == "u" else -100, 100])
            if integer
            else ("uniform", [-1, 1])
        )
    makers: dict[str, Any] = {
        # Outputs start as NaN or all ones, so that an element the kernel forgets is seen.
        "out": lambda: np.frombuffer(b"\xff" * (count * kind.itemsize), kind).copy(),
        "zeros": lambda: np.zeros(count, kind),
        "ones": lambda: np.ones(count, kind),
        "full": lambda v: np.full(count, v).astype(kind),
        "arange": lambda start=0, step=1: (start + step * np.arange(count)).astype(kind),
        "normal": lambda mean=0, deviation=1: rng.normal(mean, deviation, count).astype(kind),
        "uniform": lambda low=-1, high=1: rng.uniform(low, high, count).astype(kind),
        "integers": lambda low, high: rng.integers(int(low), int(high), count).astype(kind),
    }
    try:
        return np.asarray(makers[word](*numbers)).reshape(shape)
    except (KeyError, TypeError):
        raise BadArgument(f"argument {name}: unknown fill {fill!r}", cure="fills are " + ", ".join(FILLS)) from None


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
        except (ValueError, OSError) as e:
            raise BadArgument(
                f"argument {name}: {file} is not a NumPy file: {e}", cure="save it with numpy.save"
            ) from None
    match = _SHAPED.match(shaped.strip())
    if match is None:
        raise BadArgument(
            f"argument {name}: a raw file needs its type and shape", cure=f"write @{file_text}:half[8, 2048]"
        )
    kind = dtypes.dtype(match["dtype"]).numpy
    shape = tuple(int(n) for n in re.split(r"[,*\s]+", match["shape"].strip()) if n)
    if kind is None:
        raise BadArgument(f"argument {name}: {match['dtype']} has no array form", cure="read it as uint8")
    raw = np.fromfile(file, np.uint8)
    wanted = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    if raw.nbytes != wanted:
        raise BadArgument(
            f"argument {name}: {file} holds {raw.nbytes} bytes, {match['dtype']}[{match['shape']}] needs {wanted}",
            cure="correct the shape or the file",
        )
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
    exec(compile(file.read_text(), str(file), "exec"), space)
    if name not in space:
        raise BadInput(
            f"{file} defines no function {name}", cure="it has " + ", ".join(k for k, v in space.items() if callable(v))
        )
    return space[name]

"""toprope calibrate: correct a few constants of a chip from what msprof measured on yours, and keep them as a chip file."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from toprope import inputs
from toprope import launch as launches
from toprope import soc as chips
from toprope.commandline import Parser
from toprope.errors import BadInput
from toprope.kernel import Kernel, load
from toprope.timing.calibration import Calibration, Measured, calibrate, chip_file
from toprope.timing.prediction import STATES

_NAMES, _TIMES = ("Op Name", "OP Type", "Op Type", "Name"), ("Task Duration(us)", "Duration(us)")
_BLOCKS = ("Block Dim", "Block Num")


@dataclass(frozen=True)
class Timed:
    """What the profiler says of one kernel: the median of its tasks in microseconds, how many, and with how many blocks (0: not said)."""

    us: float
    tasks: int
    blocks: int


def main(argv: list[str]) -> int:
    """Exit code 0 done, 2 bad input."""
    p = Parser(
        prog="toprope calibrate",
        description="Correct a few constants of a chip from your own runs: kernels with their launch files, and what msprof measured for them.",
        epilog="Each kernel is launched here as its launch file says (docs/launch.md), with the blocks of the measurement; then "
        "`--soc NAME` means your device in every command.",
    )
    p.add_argument(
        "folder", type=Path, metavar="MSPROF_FOLDER", help="where op_summary*.csv or OpBasicInfo*.csv lie, at any depth"
    )
    p.add_argument(
        "kernels",
        nargs="+",
        metavar="FILE[:ENTRY]",
        help="kernels that were measured, each with a launch file beside it",
    )
    p.add_argument("--soc", default="ascend910b1", help="the chip to start from (default ascend910b1)")
    p.add_argument("--name", default="mine", help="what your chip is called (default mine)")
    p.add_argument(
        "--l2",
        choices=STATES,
        default="warm",
        help="warm: launches one after the other on the same arrays (default); called: a framework calls the kernel again and again; cold: arrays and instructions come from HBM",
    )
    p.add_argument("--output", type=Path, help=f"the chip file (default {chips.own_folder()}/NAME.toml)")
    p.add_argument("--json", action="store_true", help="machine-readable output")
    options = p.parse_args(argv)
    if options.name.lower() in chips.names():
        raise BadInput(
            f"there is a chip called {options.name} already", cure="choose another --name, or remove its file first"
        )
    soc = chips.load(options.soc)
    timed = read(options.folder)
    measured = [_measure(text, timed, options.soc, options.l2) for text in options.kernels]
    found = calibrate(soc, measured)
    output = options.output or chips.own_folder() / f"{options.name.lower()}.toml"
    source = f"calibrated from {len(measured)} kernels measured in {options.folder.name}"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(
        chip_file(soc, found, f"{soc.table.get('title', soc.name)}, calibrated", source.replace('"', "'"))
    )
    if options.json:
        print(
            json.dumps(
                {"file": str(output), "factors": found.factors, "before": found.before, "after": found.after}, indent=1
            )
        )
    else:
        _show(found, output)
    return 0


def _measure(text: str, timed: Mapping[str, Timed], chip: str, l2: str) -> Measured:
    file_text, _, entry = text.partition(":")
    file = Path(file_text)
    kernels = load(file)
    if not entry and len(kernels.kernels) > 1:
        raise BadInput(
            f"{file} has several kernels: {', '.join(kernels.kernels)}",
            cure=f"say which, for example {file}:{next(iter(kernels.kernels))}",
        )
    kernel: Kernel = kernels[entry] if entry else next(iter(kernels.kernels.values()))
    time = _of(kernel.name, timed)
    described = launches.read(file.with_suffix(".toml"), kernel.name)
    blocks = time.blocks or described.blocks
    arguments = launches.arguments(kernel, described)
    run = kernel[blocks](*arguments.values(), soc=chip, tiling_key=described.tiling_key, time_only=True)
    return Measured(kernel.name, run.trace, time.us, l2)


def _of(name: str, timed: Mapping[str, Timed]) -> Timed:
    """The profiler may add to a kernel's name (a hash, the core type) or leave its ending out."""
    fits = [key for key in timed if key.lower() == name.lower()] or [
        key for key in timed if name.lower() in key.lower()
    ]
    if len(fits) != 1:
        said = f"{len(fits)} operators of the measurement could be" if fits else "no operator of the measurement is"
        raise BadInput(f"{said} {name}", cure="measured were: " + ", ".join(sorted(timed)[:20]))
    return timed[fits[0]]


def read(folder: Path) -> dict[str, Timed]:
    """Times by operator name from a profiler's folder. Raises BadInput where there are none."""
    files = (
        [folder] if folder.is_file() else sorted([*folder.rglob("op_summary*.csv"), *folder.rglob("OpBasicInfo*.csv")])
    )
    times: dict[str, list[float]] = {}
    blocks: dict[str, int] = {}
    for file in files:
        for line, row in inputs.rows(file):
            with inputs.reading(f"{file}:{line}", "give the folder that msprof wrote, unchanged"):
                name, us, dim = _cell(row, _NAMES), _cell(row, _TIMES), _cell(row, _BLOCKS)
                if name and us:
                    inputs.numbers([float(us), float(dim or 0)], f"{file}:{line}")
                    times.setdefault(name, []).append(float(us))
                    blocks[name] = int(float(dim or 0))
    if not times:
        raise BadInput(
            f"no op_summary*.csv or OpBasicInfo*.csv with times under {folder}{_seen(files)}",
            cure="run msprof, or msprof op, and give its output folder",
        )
    return {name: Timed(statistics.median(all_), len(all_), blocks[name]) for name, all_ in times.items()}


def _seen(files: Sequence[Path]) -> str:
    return f" ({', '.join(f.name for f in files[:5])}: none in it)" if files else ""


def _cell(row: Mapping[str, str | None], names: tuple[str, ...]) -> str:
    return next((value.strip() for name in names if (value := row.get(name)) and value.strip() not in ("N/A", "")), "")


def _show(found: Calibration, output: Path) -> None:
    out = Console(highlight=False, soft_wrap=True)
    for name, before in found.before.items():
        out.print(f"{name:<32} {before:+7.1%} before, {found.after[name]:+7.1%} after", markup=False)
    mean = [sum(abs(e) for e in errors.values()) / len(errors) for errors in (found.before, found.after)]
    out.print(f"{'mean absolute error':<32} {mean[0]:7.1%} before, {mean[1]:7.1%} after")
    for name, factor in found.factors.items():
        out.print(f"  {name}: times {factor:.3f}", markup=False)
    out.print(f"wrote {output}; --soc {output.stem} is your device now")

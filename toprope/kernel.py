"""Kernel: an Ascend C source that can be launched like a function. Run: what one launch gave."""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from toprope import dtypes, runtime, tiling
from toprope.build import shared_library
from toprope.check import Again, check, explore, tiling_mismatches
from toprope.check.device_marks import unmarked_functions
from toprope.commandline import nearest
from toprope.errors import BadArgument, BadKernel, CompileFailed
from toprope.fault_lines import with_fault_line
from toprope.finding import Finding
from toprope.soc import Soc
from toprope.soc import load as load_soc
from toprope.source import TASK_TYPES, Entry, entries
from toprope.timing import Timeline, predict
from toprope.trace import PIPES, CoreRow, SiteRow, Trace
from toprope.unit import symbol_of, text_of

Argument = Any  # array, None (null pointer), number, bytes, or a mapping of tiling fields
SYSTEM_WORKSPACE_BYTES = 16 << 20
DEFAULT_SOC = "ascend910b1"
TIME_LIMIT_S = 300.0
"""How long a launch may take unless its caller says otherwise."""
CHECK_OVERFLOW = "TOPROPE_CHECK_OVERFLOW"
"""Define that makes a kernel report signed integer overflows in its own lines."""


@dataclass(frozen=True, repr=False)
class Run:
    """One launch: the arrays it worked on, its trace, and (computed on first use) its findings and timeline."""

    kernel: str
    soc: Soc
    blocks: int
    arguments: Mapping[str, Argument]
    trace: Trace
    sync: str = "auto"
    wall_s: float = 0.0
    source: Path | None = None
    again: Again | None = field(default=None, repr=False)  # set when schedules are to be explored
    poisoned: tuple[str, ...] = ()  # arguments that hold nothing before the launch
    launch: runtime.Launch | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        many = "s" if self.blocks != 1 else ""
        ended = "" if not self.trace.signal else ", ended early"
        return f"Run({self.kernel} on {self.soc.name}, {self.blocks} block{many}, {len(self.trace.instrs):,} instructions{ended})"

    def __str__(self) -> str:
        """The run in a line, its predicted time, and every error and warning."""
        told = [str(f) for f in self.findings if f.severity != "advice"]
        return "\n".join([f"{self!r}, {self.timeline.microseconds:.2f} µs predicted", *(told or ["no findings"])])

    def _repr_html_(self) -> str:
        """What a notebook shows: as `str`."""
        from toprope.pages import card  # loads Jinja, which only a notebook needs here

        pipes = ((pipe, f"{share:.0%}") for pipe in PIPES[:-1] if (share := self.timeline.busy(pipe)) > 0)
        rows = [("predicted", f"{self.timeline.microseconds:.2f} µs"), *pipes]
        return card(repr(self), rows, [(f.severity, str(f)) for f in self.findings])

    def __getstate__(self) -> dict[str, Any]:
        # What a launch needs of its process stays behind; what was to be found out with it is found out before.
        return {**self.__dict__, "findings": self.findings, "launch": None, "again": None}

    @cached_property
    def outputs(self) -> dict[str, np.ndarray[Any, Any]]:
        """The arrays that the kernel wrote to, by argument name."""
        ranges = self.trace.decoded()
        gm = (ranges.space == 0) & (ranges.mode & 2 > 0)
        written = ranges.address[gm]
        return {
            row.name: self.arguments[row.name]
            for row in self.trace.gm
            if isinstance(self.arguments.get(row.name), np.ndarray)
            and bool(np.any((written >= row.address) & (written < row.address + row.bytes)))
        }

    @cached_property
    def findings(self) -> list[Finding]:
        """Mistakes and advice from every check."""
        found = check(self.trace, self.soc, sync=self.sync, poisoned=self.poisoned, launch=self.launch)
        sizes = {row.name: row.bytes for row in self.trace.gm}
        found += [*tiling_mismatches(self.source, sizes), *unmarked_functions(self.source)] if self.source else []
        return found if self.again is None else explore(self.trace, found, self.outputs, self.again)

    @cached_property
    def timeline(self) -> Timeline:
        """When each instruction would run on the chip."""
        return predict(self.trace, self.soc, sync=self.sync)


@dataclass(frozen=True, repr=False)
class Kernel:
    """One entry of a source file. `kernel[blocks](*arguments, soc=...)` runs it; `kernel(*arguments, blocks=...)` does the same."""

    path: Path
    entry: Entry
    include: tuple[Path, ...] = ()
    defines: tuple[str, ...] = ()
    template_arguments: str = ""
    siblings: tuple[str, ...] = ()  # the file's other entries, compiled along: a file of many kernels compiles once
    # What has been built and loaded, by chip and core type. Like an imported module, a kernel stays as it was when it was first
    # launched; `load` it again to pick up an edit.
    built: dict[tuple[str, str], Path] = field(default_factory=dict, compare=False, repr=False)
    loaded: dict[tuple[str, str], ctypes.CDLL] = field(default_factory=dict, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The entry's name."""
        return self.entry.name

    def __getitem__(self, blocks: int) -> Launcher:
        return Launcher(self, blocks)

    def __call__(self, *arguments: Argument, blocks: int = 0, **options: Any) -> Run:
        if not blocks:
            raise BadArgument(
                f"{self.name}: no number of blocks is given",
                cure=f"write it in brackets: {self.name}[8](...), or blocks=8",
            )
        return Launcher(self, blocks)(*arguments, **options)

    def __repr__(self) -> str:
        return f"Kernel({self.path}: {self.entry.signature})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "loaded": {}}  # compiled code stays on disk; another process loads it again

    def library(self, soc: Soc, core_type: str) -> ctypes.CDLL:
        """The compiled kernel in this process, built on first use."""
        key = soc.name, core_type
        if key not in self.loaded:
            self.loaded[key] = runtime.load_kernel_library(self._built(soc, core_type))
        return self.loaded[key]

    def builds(self, soc: Soc, core_types: Iterable[str]) -> dict[str, Path]:
        """The compiled kernel for several core types, compiled side by side on first use. Raises CompileFailed."""
        wanted = tuple(core_types)
        missing = [t for t in wanted if (soc.name, t) not in self.built]
        if len(missing) > 1:
            runtime.library_path()  # what they link to: once, before
            with ThreadPoolExecutor(len(missing)) as compilers:
                list(compilers.map(partial(self._built, soc), missing))
        return {t: self._built(soc, t) for t in wanted}

    def _built(self, soc: Soc, core_type: str) -> Path:
        key = soc.name, core_type
        if key not in self.built:
            self.built[key] = self.build(soc, core_type)
        return self.built[key]

    def build(self, soc: Soc, core_type: str, *extra: str) -> Path:
        """Compile for one core type (aiv, aic, coupled), with `extra` options of the compiler; cached. Raises CompileFailed."""
        if not self.siblings or self.entry.template:
            return self._compile(soc, core_type, (self.name,), extra)
        try:
            return self._compile(soc, core_type, tuple(sorted((self.name, *self.siblings))), extra)
        except CompileFailed:  # perhaps only because a sibling is switched off by the preprocessor
            return self._compile(soc, core_type, (self.name,), extra)

    def _compile(self, soc: Soc, core_type: str, names: tuple[str, ...], extra: tuple[str, ...]) -> Path:
        function = f"{symbol_of(self.name)}<{self.template_arguments}>" if self.entry.template else ""
        unit = f'{text_of(self.path, self.include)}#include "machine/entry.h"\n'
        unit += "".join(f"TOPROPE_ENTRY({name}, {function or symbol_of(name)})\n" for name in names)
        generated = tiling.generated_header(self.path)
        overflow = CHECK_OVERFLOW in self.defines
        if overflow:
            unit = '#include "machine/overflow.h"\n' + unit
        return shared_library(
            generated + unit,
            include=(self.path.parent, *self.include),
            defines=(f"__NPU_ARCH__={soc.npu_arch}", f"TOPROPE_{core_type.upper()}=1", *self.defines),
            extra=(*extra, *(("-fsanitize=signed-integer-overflow",) if overflow else ())),
            link=(runtime.library_path(),),
            ahead="" if overflow or generated or extra else header_ahead(self.path, self.include),
        )


@dataclass(frozen=True, repr=False)
class Launcher:
    """A kernel with its number of blocks."""

    kernel: Kernel
    blocks: int

    def __repr__(self) -> str:
        names = ", ".join(p.name for p in self.kernel.entry.parameters)
        return f"{self.kernel.name}[{self.blocks}] of {self.kernel.path.name}: call it with ({names})"

    def compile(self, soc: str | Soc = DEFAULT_SOC, tiling_key: int = 0) -> None:
        """Build the kernel now, so that later launches, those of forked processes too, begin at once. Raises CompileFailed."""
        chip = load_soc(soc) if isinstance(soc, str) else soc
        self.kernel.builds(chip, {core.type for core in cores_of(self.kernel, self.blocks, chip, tiling_key)[0]})

    def __call__(
        self,
        *arguments: Argument,
        soc: str | Soc = DEFAULT_SOC,
        tiling_key: int = 0,
        time_only: bool = False,
        time_limit_s: float = TIME_LIMIT_S,
        sync: str = "auto",
        capture_limit_bytes: int = 0,
        explore: bool = False,
        block_order: Sequence[int] = (),
        poisoned: Sequence[str] = (),
        in_process: bool | None = None,
        quiet: bool = False,
        **named: Argument,
    ) -> Run:
        """Run all blocks on the software NPU. Arguments go by position or by the names of the kernel's parameters.

        Arrays are passed in place (C-contiguous NumPy arrays; the kernel writes its outputs into them), None is a null pointer,
        numbers fill scalar arguments, bytes or a mapping fill tiling structs. `sync` is "auto" (the vendor's compiler inserts
        barriers inside the vector pipe, its default) or "manual". `capture_limit_bytes` above 0 keeps what every instruction wrote,
        up to that size, in `Run.trace.values`. `explore` repeats the run for every race that it finds, in the order that the race
        allows, and tells in `Finding.outcome` what becomes of the outputs. `block_order` says which block the
        software machine runs first, next, ...: results must not depend on it. `poisoned` names arguments that hold nothing before
        the launch, for `Run.findings`.

        The kernel runs in a process of its own, so that one that crashes, exits or never ends (`time_limit_s`, 0: no limit) costs this
        session nothing; arrays are copied there and back, except those of `toprope.empty`, which both processes share. `in_process`
        saves that (some milliseconds, and the copies) and lets a debugger see the kernel: a wild pointer or exit() then ends this
        process; None means False, or True where the environment has TOPROPE_IN_PROCESS=1.
        `quiet` sends what the kernel prints to standard error. Raises BadArgument, BadKernel, CompileFailed.
        """
        chip = load_soc(soc) if isinstance(soc, str) else soc
        arguments = self._in_order(arguments, named) if named else arguments
        cores, ratio, mixed = cores_of(self.kernel, self.blocks, chip, tiling_key)
        if not time_limit_s >= 0 or time_limit_s == float("inf"):
            raise BadArgument(f"a time limit of {time_limit_s} s", cure="give seconds, or 0 for no limit")
        if in_process is None:
            in_process = os.environ.get("TOPROPE_IN_PROCESS") == "1"
        bound = _Bound(self.kernel, arguments)
        core_types = {core.type for core in cores}
        launch = runtime.Launch(
            kernel=self.kernel.name,
            entries=self._loaded(chip, core_types, bound) if in_process else {},
            apart=None if in_process else self._apart(chip, core_types, bound, quiet),
            arguments=bound.addresses,
            gm=bound.gm,
            cores=cores,
            blocks=self.blocks,
            ratio=ratio,
            mixed=mixed,
            tiling_key=tiling_key,
            execute=not time_only,
            time_limit_s=time_limit_s,
            system_workspace=_system_workspace(mixed),
            capture_limit_bytes=capture_limit_bytes,
            owner=bound,
            before=runtime.small_arguments(bound.gm),
            core_order=_core_order(cores, block_order if len(block_order) else _ORDER.get()(self.blocks), self.blocks),
        )
        again = self._again(launch, arguments, chip) if explore else None
        begin = time.perf_counter()
        trace = runtime.run(launch, chip)
        wall_s = time.perf_counter() - begin
        if trace.crash:
            trace = with_fault_line(trace, lambda core_type: self.kernel.build(chip, core_type, "-g1"))
        named = {p.name: a for p, a in zip(self.kernel.entry.parameters, arguments, strict=True)}
        return Run(
            self.kernel.name,
            chip,
            self.blocks,
            named,
            trace,
            sync,
            wall_s,
            self.kernel.path,
            again,
            tuple(poisoned),
            launch,
        )

    def _in_order(self, arguments: Sequence[Argument], named: Mapping[str, Argument]) -> tuple[Argument, ...]:
        names = [p.name for p in self.kernel.entry.parameters]
        signature = f"its signature is {self.kernel.entry.signature}"
        if unknown := [n for n in named if n not in names]:
            near = nearest(unknown[0], [*names, "soc", "tiling_key", "time_only", "time_limit_s", "sync", "in_process"])
            raise BadArgument(f"{self.kernel.name} has no argument {unknown[0]}{near}", cure=signature)
        if twice := [n for n in names[: len(arguments)] if n in named]:
            raise BadArgument(f"{twice[0]} is given by position and by name", cure=signature)
        if missing := [n for n in names[len(arguments) :] if n not in named]:
            raise BadArgument(f"{self.kernel.name}: no value for {', '.join(missing)}", cure=signature)
        return (*arguments, *(named[n] for n in names[len(arguments) :]))

    def _loaded(self, chip: Soc, core_types: Iterable[str], bound: _Bound) -> dict[str, int]:
        launchers = {}
        for core_type in self.kernel.builds(chip, core_types):
            library = self.kernel.library(chip, core_type)
            _check_sizes(self.kernel, library, bound)
            launchers[core_type] = (
                ctypes.cast(getattr(library, f"toprope_call_{self.kernel.name}"), ctypes.c_void_p).value or 0
            )
        return launchers

    def _apart(self, chip: Soc, core_types: Iterable[str], bound: _Bound, quiet: bool) -> runtime.Apart:
        entry = self.kernel.entry
        return runtime.Apart(
            self.kernel.builds(chip, core_types),
            self.kernel.name,
            [v.nbytes for v in bound.values],
            entry.signature,
            SiteRow(str(self.kernel.path.resolve()), entry.line),
            quiet,
        )

    def _again(self, launch: runtime.Launch, arguments: Sequence[Argument], chip: Soc) -> Again:
        """Runs the launch in another schedule, on copies of the arguments as they are now."""
        before = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]

        def again(
            delay: runtime.Delay | None, last_core_first: bool
        ) -> tuple[Trace, Mapping[str, np.ndarray[Any, Any]]]:
            bound = _Bound(self.kernel, [a.copy() if isinstance(a, np.ndarray) else a for a in before])
            other = replace(
                launch,
                arguments=bound.addresses,
                gm=bound.gm,
                system_workspace=_system_workspace(launch.mixed),
                capture_limit_bytes=0,
                delay=delay,
                core_order=tuple(reversed(range(len(launch.cores)))) if last_core_first else (),
            )
            return runtime.run(other, chip), {row.name: row.array for row in bound.gm}

        return again


@dataclass(frozen=True)
class Call:
    """A launch that is ready: a kernel with its blocks and chip, its arguments by name, and which arrays among them are its outputs.

    `outputs` by the operator's own names (a list of arrays for a dynamic output); `poisoned` are arguments that hold nothing yet.
    """

    kernel: Kernel
    blocks: int
    soc: Soc
    arguments: Mapping[str, Argument]
    outputs: Mapping[str, Any]
    poisoned: tuple[str, ...] = ()
    tiling_key: int = 0

    def __call__(self, **options: Any) -> Run:
        """Launch it; `options` as of a Launcher's call."""
        given = {"soc": self.soc, "tiling_key": self.tiling_key, "poisoned": self.poisoned, **options}
        return self.kernel[self.blocks](*self.arguments.values(), **given)

    def parameter(self, array: Any) -> str:
        """The name of the argument that is this array; "" when none is."""
        return next((n for n, v in self.arguments.items() if v is array), "")


_AHEAD = re.compile(r'(?:\s|//[^\n]*\n|/\*.*?\*/)*#[ \t]*include[ \t]*["<]kernel_operator\.h[">]', re.S)


def header_ahead(source: Path, include: Sequence[Path] = ()) -> str:
    """`kernel_operator.h` if the source includes it, and the library's own, before it says anything else; else ""."""
    if any((folder / "kernel_operator.h").exists() for folder in (source.parent, *include)):
        return ""
    return "kernel_operator.h" if _AHEAD.match(source.read_text(errors="replace")) else ""


def _system_workspace(mixed: bool) -> np.ndarray[Any, Any] | None:
    return np.zeros(SYSTEM_WORKSPACE_BYTES, np.uint8) if mixed else None


def load(path: str | Path, *, include: Sequence[str | Path] = (), defines: Sequence[str] = ()) -> KernelFile:
    """Read an Ascend C source; its entries become attributes. Compiles on first launch. Raises BadKernel."""
    file = Path(path)
    found = entries(file)
    plain = tuple(e.name for e in found if not e.template)
    return KernelFile(
        file,
        {
            e.name: Kernel(
                file, e, tuple(map(Path, include)), tuple(defines), siblings=tuple(n for n in plain if n != e.name)
            )
            for e in found
        },
    )


class KernelFile:
    """The kernels of one source file, as attributes and by name."""

    def __init__(self, path: Path, kernels: dict[str, Kernel]) -> None:
        self.path = path
        self.kernels = kernels

    def __getattr__(self, name: str) -> Kernel:
        kernels: dict[str, Kernel] = self.__dict__.get("kernels", {})  # none yet while it is unpickled
        if name not in kernels:
            near = nearest(name, list(kernels))
            raise AttributeError(
                f"{self.__dict__.get('path')} has no kernel {name!r}{near}; it has {', '.join(kernels)}",
                name=name,
                obj=self,
            )
        return kernels[name]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.kernels})

    def __getitem__(self, name: str) -> Kernel:
        if name not in self.kernels:
            near = nearest(name, list(self.kernels))
            raise BadKernel(f"{self.path.name} has no kernel {name!r}{near}", cure="it has " + ", ".join(self.kernels))
        return self.kernels[name]

    def __repr__(self) -> str:
        return f"KernelFile({self.path}: {', '.join(k.entry.signature for k in self.kernels.values())})"


def cores_of(kernel: Kernel, blocks: int, soc: Soc, tiling_key: int) -> tuple[list[CoreRow], int, bool]:
    """The cores a launch uses, AIVs per AI core, and whether both types run. Raises BadArgument for a bad block count."""
    if blocks < 1:
        raise BadArgument(
            f"{blocks} blocks: a launch needs at least 1",
            cure="give the number of blocks, e.g. kernel[8](...) or --blocks 8",
        )
    if not soc.split:
        return [CoreRow(b, 0, "coupled") for b in range(blocks)], 1, False
    task = next(
        (t for key, t in kernel.entry.task_type_by_key if key.isdigit() and int(key) == tiling_key),
        kernel.entry.task_type,
    )
    aic, aiv = TASK_TYPES[task]
    cores = [CoreRow(b, s, kind) for b in range(blocks) for kind, n in (("aic", aic), ("aiv", aiv)) for s in range(n)]
    return cores, max(1, aiv), bool(aic and aiv)


_ORDER: ContextVar[Callable[[int], Sequence[int]]] = ContextVar("block order", default=lambda blocks: ())


@contextmanager
def in_block_order(order: Callable[[int], Sequence[int]]) -> Iterator[None]:
    """Launches inside take the `block_order` that `order` makes of their number of blocks, wherever in a program they are."""
    token = _ORDER.set(order)
    try:
        yield
    finally:
        _ORDER.reset(token)


def _core_order(cores: Sequence[CoreRow], block_order: Sequence[int], blocks: int) -> tuple[int, ...]:
    """The numbers of all cores, those of the first block of `block_order` first. Raises BadArgument."""
    if len(block_order) == 0:
        return ()
    if sorted(block_order) != list(range(blocks)):
        raise BadArgument(f"block_order {list(block_order)} of {blocks} blocks", cure="name every block once")
    place = {block: at for at, block in enumerate(block_order)}
    return tuple(sorted(range(len(cores)), key=lambda i: place[cores[i].block]))


class _Bound:
    """Arguments laid out for the launcher: the address of each value, and the GM buffers behind the pointers."""

    def __init__(self, kernel: Kernel, arguments: Sequence[Argument]) -> None:
        parameters = kernel.entry.parameters
        if len(arguments) != len(parameters):
            raise BadArgument(
                f"{kernel.name} takes {len(parameters)} arguments, {len(arguments)} were given",
                cure=f"its signature is {kernel.entry.signature}",
            )
        self.gm: list[runtime.GmArgument] = []
        self.values = [self._value(kernel, p, a) for p, a in zip(parameters, arguments, strict=True)]
        self.addresses = [v.ctypes.data for v in self.values]

    def _value(self, kernel: Kernel, parameter: Any, argument: Argument) -> np.ndarray[Any, Any]:
        if not parameter.is_pointer:
            return tiling.scalar_bytes(kernel.path, parameter.type, parameter.name, argument)
        if argument is None:
            return np.zeros(1, np.uint64)
        if isinstance(argument, bytes | Mapping):
            argument = tiling.struct_bytes(kernel.path, parameter.name, argument)
        if not isinstance(argument, np.ndarray):
            raise BadArgument(
                f"argument {parameter.name} is an array in GM and got {type(argument).__name__}",
                cure=f'pass a NumPy array, bytes or None; in a launch file write {parameter.name} = "half[8, 2048]"',
            )
        if not argument.flags.c_contiguous or not argument.flags.writeable:
            raise BadArgument(
                f"array {parameter.name} is not C-contiguous and writable",
                cure=f"pass numpy.ascontiguousarray({parameter.name}) or {parameter.name}.copy()",
            )
        given = dtypes.of_array(argument)
        if parameter.element and dtypes.dtype(parameter.element).bits != given.bits:
            raise BadArgument(
                f"array {parameter.name} holds {given.name}, the kernel takes {parameter.element}",
                cure=f"convert it to {dtypes.dtype(parameter.element).name}",
            )
        self.gm.append(runtime.GmArgument(parameter.name, argument))
        return np.array([argument.ctypes.data], np.uint64)


def _check_sizes(kernel: Kernel, library: ctypes.CDLL, bound: _Bound) -> None:
    told = getattr(library, f"toprope_sizes_{kernel.name}")
    sizes = (ctypes.c_uint32 * max(1, told(None)))()  # as many as the compiled kernel has: it writes them all
    told(sizes)
    for parameter, size, value in zip(kernel.entry.parameters, sizes[: told(None)], bound.values, strict=True):
        if value.nbytes != size:
            raise BadArgument(
                f"argument {parameter.name} is {size} bytes ({parameter.type}), {value.nbytes} were given",
                cure=f"signature: {kernel.entry.signature}",
            )

"""What can be tuned: a tile function, an operator project, a kernel whose constants come from the command line of the compiler.

Each kind gives a space, predicts a point without arithmetic, and verifies a point by running it on data.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from toprope import launch as launches
from toprope import timing
from toprope.build import compiler
from toprope.dtypes import dtype as dtype_named
from toprope.errors import BadInput, CompileFailed, TopropeError
from toprope.kernel import Run, load
from toprope.new.from_tile import load_tile_kernel
from toprope.project.host import Tiling
from toprope.project.loaded import ProjectOperator, load_project
from toprope.soc import load as load_soc
from toprope.source import local_files
from toprope.testing.compare import compare
from toprope.tile.language import TileError, TileTooLarge, numpy_of
from toprope.tune.measure import Measure, measured
from toprope.tune.space import Parameter, Point, Space, ladder, parameter_of
from toprope.tune.state import chip_in

BLOCKS = "blocks"
"""The number of blocks of a launch, as a parameter."""
_SEED = 20
_ROOMS = ("ascendc", "check", "order", "project", "tile", "timing")
"""Of the package: what a prediction depends on besides its top modules."""
_LIMIT_S = 20.0  # of one launch: a size that makes a loop endless must not hold up the others


@dataclass(frozen=True)
class Recipe:
    """All that says what is tuned, as plain values, so that a worker elsewhere can open it.

    `target` file.py:function, a project's folder (or folder:Operator), or file.cpp[:entry]; `shape` what it runs on: dimensions of a
    tile function, or for a project the inputs as "float16[1024,4096]"; `parameters` as on the command line.
    """

    target: str
    soc: str
    shape: tuple[tuple[str, int], ...] = ()
    inputs: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    state: tuple[tuple[str, float], ...] = ()

    def at(self, shape: Mapping[str, int] | None = None, inputs: tuple[str, ...] = ()) -> Recipe:
        """The same for another shape."""
        return Recipe(self.target, self.soc, tuple((shape or {}).items()), inputs, self.parameters, self.state)


class Subject(Protocol):
    """See the module."""

    recipe: Recipe

    @property
    def space(self) -> Space:
        """The points to choose from."""

    @property
    def today(self) -> Mapping[str, int]:
        """Today's number of everything that may be a parameter, for this shape or for another."""

    def measure(self, point: Point) -> Measure:
        """Predicted time of a point, or why it has none; a point with an error finding has none."""

    def verify(self, point: Point) -> str:
        """ "" when the point's answer on random data is right, else what is wrong."""

    def sources(self) -> list[Path]:
        """The files that decide the times."""


@cache
def open_subject(recipe: Recipe) -> Subject:
    """The subject of a recipe. Raises BadInput."""
    path = recipe.target.partition(":")[0]
    if path.endswith(".py"):
        return TileSubject(recipe)
    if Path(path).is_dir():
        return ProjectSubject(recipe)
    if Path(path).suffix in (".cpp", ".asc", ".cce"):
        return KernelSubject(recipe)
    raise BadInput(
        f"{recipe.target!r} is nothing that can be tuned",
        cure="name file.py:tile_function, a project's folder or kernel.cpp:entry",
    )


def identity(subject: Subject) -> str:
    """A digest of everything that a prediction depends on: recipe, sources, chip, and our own code that compiles, checks and times them."""
    said = hashlib.sha256(json.dumps(asdict(subject.recipe), sort_keys=True).encode())
    for file in subject.sources():
        said.update(file.read_bytes())
    chip = load_soc(subject.recipe.soc)
    said.update(json.dumps(chip.table, sort_keys=True, default=str).encode())
    said.update(_own_code())
    said.update(compiler().version.encode())
    return said.hexdigest()[:24]


@cache
def _own_code() -> bytes:
    """A digest of the header library and of the rooms between a source and its time."""
    package = Path(timing.__file__).parents[1]
    said = hashlib.sha256()
    files = [*package.glob("*.py"), *(f for room in _ROOMS for f in (package / room).rglob("*"))]
    for file in sorted(f for f in files if f.suffix in (".py", ".h", ".hpp", ".toml", ".tsv")):
        said.update(str(file.relative_to(package)).encode() + b"\0" + file.read_bytes())
    return said.digest()


def _random(dtype: Any, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        return rng.integers(0, 4, shape).astype(kind)
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(kind)
    return rng.uniform(-1, 1, shape).astype(kind)


def _given(recipe: Recipe, known: Mapping[str, int]) -> dict[str, Parameter]:
    found = {}
    for text in recipe.parameters:
        parameter = parameter_of(text)
        if known and parameter.name not in known:
            raise BadInput(f"there is no parameter {parameter.name}", cure=f"there are {', '.join(known)}")
        default = known.get(parameter.name, parameter.default)
        values = tuple(sorted({*parameter.values, default}))
        found[parameter.name] = Parameter(parameter.name, values, default, "given")
    return found


def _failed(run: Run) -> str:
    errors = [f for f in run.findings if f.severity == "error"]
    return f"{errors[0].code}: {errors[0].message}" if errors else "the kernel did not end" if run.trace.signal else ""


class TileSubject:
    """A tile function: its `tile.tune` sizes."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.file, self.kernel = load_tile_kernel(recipe.target)
        self.space = self._space()

    def _space(self) -> Space:
        kernel, shape = self.kernel, dict(self.recipe.shape)
        if missing := [d for d in kernel.dims if d not in shape]:
            raise BadInput(
                f"{kernel.name} has the dimensions {', '.join(kernel.dims)}: {missing[0]} is missing",
                cure="--shape " + " ".join(f"{d}=1024" for d in kernel.dims),
            )
        if unknown := [d for d in shape if d not in kernel.dims]:
            raise BadInput(
                f"{kernel.name} has no dimension {unknown[0]}", cure=f"its dimensions are {', '.join(kernel.dims)}"
            )
        if not kernel.tunes:
            raise BadInput(f"{kernel.name} has no tile size to choose", cure="declare one: T=tile.tune(1024)")
        given = _given(self.recipe, {n: t.default for n, t in kernel.tunes.items()})
        made = []
        for name, t in kernel.tunes.items():
            low, high = max(t.mult, t.default // 8, 1), t.default * 8
            values = tuple(sorted({*ladder(low, high, t.mult), t.default}))
            made.append(
                given.get(name)
                or Parameter(name, values, t.default, f"an eighth to eight times {t.default}, multiples of {t.mult}")
            )
        return Space(tuple(made))

    @property
    def today(self) -> Mapping[str, int]:
        """See Subject."""
        return self.space.default

    def _arrays(self, fill: bool) -> list[Any]:
        shape, rng = dict(self.recipe.shape), np.random.default_rng(_SEED)
        made = []
        for p in self.kernel.params.values():
            size, kind = tuple(shape[d.name] for d in p.dims), numpy_of(p.dtype)
            made.append(
                _random(kind, size, rng)
                if fill and not p.written
                else np.zeros(size, kind)
                if fill
                else np.empty(size, kind)
            )
        return made

    def measure(self, point: Point) -> Measure:
        """See Subject."""
        try:
            run = self.kernel.run(*self._arrays(False), soc=self.recipe.soc, time_only=True, **dict[str, Any](point))
        except TileTooLarge as error:
            return Measure(reason=error.message.splitlines()[0], too_large=True)
        except (TileError, CompileFailed) as error:
            return Measure(reason=error.message.splitlines()[0])
        return measured(run, chip_in(self.recipe.soc, dict(self.recipe.state)))

    def verify(self, point: Point) -> str:
        """Against level A, the function's own evaluation on NumPy."""
        arrays, golden = self._arrays(True), self._arrays(True)
        run = self.kernel.run(*arrays, soc=self.recipe.soc, **dict[str, Any](point))
        if said := _failed(run):
            return said
        self.kernel(*golden, **point)
        for name, p, actual, wanted in zip(
            self.kernel.params, self.kernel.params.values(), arrays, golden, strict=True
        ):
            if p.written and not (verdict := compare(actual, wanted)):
                return f"{name} {verdict.summary()}"
        return ""

    def sources(self) -> list[Path]:
        """See Subject."""
        return [self.file]


class ProjectSubject:
    """An operator project: numbers of its tiling data and its blocks, around what its own host code proposes.

    Which numbers may change is found out: one that changes the answer, or what the checks say, describes the problem and is left alone.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        folder, _, name = recipe.target.partition(":")
        self.operator: ProjectOperator = load_project(Path(folder), name)
        self.folder = Path(folder)
        if not recipe.inputs:
            raise BadInput(
                f"the shapes of {self.operator.name}'s inputs are not given",
                cure='--input "float16[1024,4096]" for each input, in order',
            )

    @cached_property
    def _shapes(self) -> list[tuple[Any, tuple[int, ...]]]:
        made = []
        for text in self.recipe.inputs:
            kind, _, rest = text.partition("[")
            try:
                made.append(
                    (dtype_named(kind.strip()).numpy, tuple(int(n) for n in rest.rstrip("] ").split(",") if n.strip()))
                )
            except (ValueError, KeyError, TopropeError) as error:
                raise BadInput(
                    f"--input {text!r} is no element type with a shape", cure='write "float16[1024,4096]"'
                ) from error
        return made

    def _arrays(self, fill: bool) -> list[Any]:
        rng = np.random.default_rng(_SEED)
        return [_random(kind, shape, rng) if fill else np.empty(shape, kind) for kind, shape in self._shapes]

    @cached_property
    def proposed(self) -> Tiling:
        """What the host code chooses."""
        run = self.operator.run(*self._arrays(False), soc=self.recipe.soc, options={"time_only": True})
        return run.tiling

    @cached_property
    def today(self) -> Mapping[str, int]:
        """See Subject: what the host code proposes, as far as it is whole numbers above 0."""
        numbers = {n: v for n, v in self.proposed.fields.items() if isinstance(v, int) and not isinstance(v, bool)}
        return {**{n: v for n, v in numbers.items() if 0 < v < 1 << 31}, BLOCKS: self.proposed.block_dim}

    @cached_property
    def space(self) -> Space:
        """Fields that are whole numbers and do not describe the problem, and the number of blocks."""
        known = self.today
        given = _given(self.recipe, known)
        names = list(given or known)
        chip = load_soc(self.recipe.soc)
        made = []
        for name in names:
            if name in given:
                made.append(given[name])
                continue
            now = known[name]
            most = max(chip.aiv, now) if name == BLOCKS else now * 8
            values = tuple(sorted({*ladder(max(1, now // 8), most), now}))
            tried = [v for v in values if v != now]
            around = {
                v
                for v in (max((v for v in tried if v < now), default=0), min((v for v in tried if v > now), default=0))
                if v
            }
            right = [v for v in sorted(around) if not self.verify({name: v})]
            if any(self.measure({name: v}).us not in (None, self._own_us) for v in right):
                made.append(Parameter(name, values, now, "tried: another value changes the time and not the answer"))
        if not made:
            raise BadInput(
                f"no number of {self.operator.name}'s tiling can change without a wrong answer",
                cure="name the ones to try: --parameter FIELD=8:64",
            )
        return Space(tuple(made))

    @cached_property
    def _own_us(self) -> float | None:
        return self.measure({}).us

    def _tiling(self, point: Point) -> Tiling:
        fields: dict[str, Any] = {n: v for n, v in point.items() if n != BLOCKS}
        return self.operator.changed(self.proposed, block_dim=point.get(BLOCKS), **fields)

    def measure(self, point: Point) -> Measure:
        """See Subject."""
        options = {"time_only": True, "time_limit_s": _LIMIT_S}
        try:
            found = self.operator.run(
                *self._arrays(False), soc=self.recipe.soc, tiling=self._tiling(point), options=options
            )
        except TopropeError as error:
            return Measure(reason=error.message.splitlines()[0])
        return measured(found.run, chip_in(self.recipe.soc, dict(self.recipe.state)))

    @cached_property
    def _wanted(self) -> dict[str, Any]:
        found = self.operator.run(*self._arrays(True), soc=self.recipe.soc)
        if said := _failed(found.run):
            raise BadInput(
                f"{self.operator.name} fails with its own tiling: {said}", cure="correct that first: toprope test"
            )
        return dict(found.outputs)

    def verify(self, point: Point) -> str:
        """Against the answer with the host's own tiling; `toprope test` judges that one against the reference."""
        wanted = self._wanted
        try:
            found = self.operator.run(
                *self._arrays(True),
                soc=self.recipe.soc,
                tiling=self._tiling(point),
                options={"time_limit_s": _LIMIT_S},
            )
        except TopropeError as error:
            return error.message.splitlines()[0]
        if said := _failed(found.run):
            return said
        for name, values in wanted.items():
            pairs = (
                zip(values, found.outputs[name], strict=True)
                if isinstance(values, list)
                else [(values, found.outputs[name])]
            )
            for one, other in pairs:
                if not (verdict := compare(other, one)):
                    return f"{name} differs from the host's own tiling: {verdict.summary()}"
        return ""

    def sources(self) -> list[Path]:
        """See Subject."""
        own = sorted(f for f in self.folder.rglob("*") if f.suffix in (".cpp", ".h", ".hpp", ".asc"))
        return list(dict.fromkeys(f.resolve() for source in own for f, _ in local_files(source)))


class KernelSubject:
    """A kernel whose constants are macros: `-D NAME=VALUE` for each parameter. Its launch file says what it runs on."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        path, _, entry = recipe.target.partition(":")
        self.file = Path(path)
        if not recipe.parameters:
            raise BadInput(
                "a kernel's constants have to be named",
                cure="--parameter TILE=256:8192, for a macro that the source lets -D set (#ifndef TILE)",
            )
        if recipe.shape or recipe.inputs:
            raise BadInput(
                "a kernel runs on what its launch file says",
                cure=f"change {self.file.with_suffix('.toml')}; --shape is for tile functions, --input for projects",
            )
        kernels = load(self.file).kernels
        described = launches.described(self.file.with_suffix(".toml"))
        names = [entry] if entry else [n for n in kernels if n in described]
        if len(names) != 1 or names[0] not in kernels:
            raise BadInput(
                f"{self.file} with its launch file names {len(names)} kernels",
                cure=f"name one: {self.file}:{next(iter(kernels))}",
            )
        self.entry = names[0]
        self.space = Space(tuple(_given(recipe, self._constants()).values()))

    def _constants(self) -> dict[str, int]:
        """The number that stands in the source for each named macro, and the launch file's blocks. Raises BadInput."""
        text = "\n".join(t for _, t in local_files(self.file))
        found = {BLOCKS: launches.read(self.file.with_suffix(".toml"), self.entry).blocks}
        for named in (parameter_of(p) for p in self.recipe.parameters):
            if named.name == BLOCKS:
                continue
            if not re.search(rf"^\s*#\s*if(ndef\s+|\s+!\s*defined\W+){named.name}\b", text, re.MULTILINE):
                raise BadInput(
                    f"{self.file} has no {named.name} that -D may set",
                    cure=f"write #ifndef {named.name}, #define {named.name} {named.default}, #endif in the source",
                )
            stands = re.findall(rf"^\s*#\s*define\s+{named.name}\s+\(?(\d+)\)?\s*$", text, re.MULTILINE)
            if len(set(stands)) != 1:
                raise BadInput(
                    f"{self.file} gives {named.name} no one number: {', '.join(stands) or 'none is found'}",
                    cure=f"write #ifndef {named.name}, #define {named.name} {named.default}, #endif in the source",
                )
            found[named.name] = int(stands[0])
        return found

    @property
    def today(self) -> Mapping[str, int]:
        """See Subject."""
        return self.space.default

    def _launch(self, point: Point, fill: bool) -> tuple[Run, dict[str, Any], launches.LaunchFile]:
        defines = [f"{n}={v}" for n, v in point.items() if n != BLOCKS]
        kernel = load(self.file, defines=defines)[self.entry]
        launch = launches.read(self.file.with_suffix(".toml"), self.entry)
        arguments = launches.arguments(kernel, launch)
        before = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in arguments.items()} if fill else {}
        run = kernel[point.get(BLOCKS, launch.blocks)](
            *arguments.values(),
            soc=self.recipe.soc,
            time_only=not fill,
            poisoned=launches.outputs(launch),
            time_limit_s=_LIMIT_S,
        )
        wanted = launches.references(launch, before) if fill else {}
        return run, {n: (arguments[n], w) for n, w in wanted.items()}, launch

    def measure(self, point: Point) -> Measure:
        """See Subject."""
        try:
            run, _, _ = self._launch(point, False)
        except TopropeError as error:
            return Measure(reason=error.message.splitlines()[0])
        return measured(run, chip_in(self.recipe.soc, dict(self.recipe.state)))

    def verify(self, point: Point) -> str:
        """Against the references of the launch file; without one, against the answer of today's constants."""
        try:
            run, pairs, launch = self._launch(point, True)
        except TopropeError as error:
            return error.message.splitlines()[0]
        if said := _failed(run):
            return said
        if not pairs:
            first, _, _ = self._launch(self.space.default, True)
            pairs = {n: (run.outputs[n], array) for n, array in first.outputs.items()}
        for name, (actual, wanted) in pairs.items():
            if not (verdict := compare(actual, wanted, standard=launch.standard)):
                return f"{name} {verdict.summary()}"
        return ""

    def sources(self) -> list[Path]:
        """See Subject."""
        launch = self.file.with_suffix(".toml")
        return [*(f for f, _ in local_files(self.file)), *([launch] if launch.is_file() else [])]

"""Script pairs as every operator sample has them: gen_data.py writes inputs and golden, verify_result.py compares.

Contract: gen_data.py runs in a build folder and writes raw little-endian files, inputs to ./input and the reference to
./output/golden*.bin; the operator writes ./output/<something>.bin; verify_result.py gets the two files and succeeds by
printing "test pass!" and exiting 0. Kernel unit tests use compare_data.py <dtype> instead, with
<dtype>_golden_*.bin and <dtype>_output_*.bin side by side, and print PASSED.

The scripts run unchanged, in a child process, in a folder of their own.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from toprope.testing.cases import Case
from toprope.testing.elements import Array
from toprope.testing.errors import CaseError
from toprope.testing.old_scripts import OLD_NUMPY
from toprope.testing.readers.cpp_commands import commands

GENERATORS = ("gen_data.py", "gen_golden_data.py")
VERIFIERS = ("verify_result.py", "compare_data.py")
_USUAL = {
    "shape": "(16, 64)",
    "size": "(16, 64)",
    "type": "float32",
    "eps": "1e-5",
    "axis": "-1",
    "dim": "-1",
    "alpha": "0.5",
    "beta": "0.5",
    "scalar": "2",
    "range": "(0, 10)",
    "loss": "0.001",
}
# What else to try where arguments are guessed: the spellings of element types that scripts know, and shapes of other ranks.
_OTHER_TYPES = ("float", "float16", "int32")
_OTHER_SHAPES = ("(2, 3, 8, 8)", "(64,)")
_TYPE_WORDS = {
    "float32",
    "float",
    "float16",
    "half",
    "bfloat16",
    "int32",
    "int64",
    "int8",
    "uint8",
    "int16",
    "bool",
    "double",
}
_SIZES = {
    "n",
    "c",
    "l",
    "b",
    "h",
    "w",
    "m",
    "k",
    "d",
    "rows",
    "cols",
    "batch",
    "channel",
    "channels",
    "total",
    "length",
}
_PLACEHOLDER = re.compile(r"\(?(?:[a-z]\w*_)?(?:shape|d?type|range)\)?")
_LOG_LINE = re.compile(r"[IWE]\d{4} |WARNING: |To enable the following instructions")
# Names that NumPy 2 has no more and that scripts still use; a module that Python imports at its start brings them back.
_OLD_NUMPY = re.compile(
    r"\bnp\.(bool8|float_|complex_|int0|uint0|product|cumproduct|sometrue|alltrue|Inf|NaN|NINF|PINF|in1d)\b"
)
_LOST_FILE = re.compile(r"No such file or directory: '(?:[^']*/)?([^'/]+\.bin)'")
_VARIABLE = re.compile(r"\$\{?\w+\}?")


@dataclass(frozen=True)
class ScriptPair:
    """A generator and its verifier, with the argument lists their documentation or tests call them with."""

    folder: Path
    generator: Path
    verifier: Path
    generator_arguments: tuple[str, ...] = ()
    verifier_arguments: tuple[str, ...] = ()
    guessed: bool = False  # nothing shows how the generator is called

    @property
    def name(self) -> str:
        """The operator's or sample's folder name."""
        parent = self.folder.parent if self.folder.name == "scripts" else self.folder
        return parent.name.removesuffix("_data")


@dataclass(frozen=True)
class Generated:
    """What a generator left behind: input and golden files, relative to `workspace`."""

    pair: ScriptPair
    workspace: Path
    inputs: tuple[str, ...]
    goldens: tuple[str, ...]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The files that the operator has to write, one per golden."""
        named = [a for a in self.pair.verifier_arguments if a.endswith(".bin") and "golden" not in a.lower()]
        plain = [str(Path(a)) for a in named]
        if len(plain) == len(self.goldens):
            return tuple(plain)
        return tuple(re.sub("golden", "output", golden, flags=re.I) for golden in self.goldens)


def find(root: Path) -> Iterator[ScriptPair]:
    """Every generator that has a verifier beside it, below `root`."""
    for generator in sorted(root.rglob("*.py")):
        if generator.name not in GENERATORS:
            continue
        for name in VERIFIERS:
            verifier = generator.with_name(name)
            if verifier.is_file():
                yield pair_of(generator, verifier)
                break


def pair_of(generator: Path, verifier: Path) -> ScriptPair:
    """The pair with the arguments found in README files, run scripts and unit tests around it, else guessed from their names."""
    texts = [*_texts_around(generator.parent), generator.read_text(errors="replace")]
    shown = _arguments_of(generator.name, texts)
    made = shown or _guessed_arguments(generator)
    compared = _arguments_of(verifier.name, texts) or _guessed_arguments(verifier)
    types = [word for word in made if word in _TYPE_WORDS]
    if len(compared) == 1 and compared[0] in _TYPE_WORDS and types and compared[0] not in types:
        compared = (types[0],)  # taken from calls of different tests
    return ScriptPair(generator.parent, generator, verifier, made, compared, not shown)


def _variants(pair: ScriptPair) -> Iterator[ScriptPair]:
    """The pair, and where its arguments are guessed, the same with other element types and other shapes."""
    yield pair
    if not pair.guessed:
        return
    for kind, shape in itertools.product((_USUAL["type"], *_OTHER_TYPES), (_USUAL["shape"], *_OTHER_SHAPES)):
        other = {_USUAL["type"]: kind, _USUAL["shape"]: shape}
        made = tuple(other.get(word, word) for word in pair.generator_arguments)
        if made != pair.generator_arguments:
            compared = tuple(other.get(word, word) for word in pair.verifier_arguments)
            yield replace(pair, generator_arguments=made, verifier_arguments=compared)


def _guessed_arguments(script: Path) -> tuple[str, ...]:
    """Arguments for a script that nothing around it calls: by the names of the parameters that get sys.argv; () where one says nothing."""
    for names in _parameter_names(script.read_text(errors="replace")):
        made = ["8" if n in _SIZES else next((v for key, v in _USUAL.items() if key in n), "") for n in names]
        if made and all(made):
            return tuple(made)
    return ()


def _parameter_names(text: str) -> Iterator[list[str]]:
    """What a script calls its arguments: parameters of the function that gets them, variables, argparse, its usage line."""
    call = re.search(r"\b(\w+)\(\s*(sys\.argv\[1\][^()]*)\)", text)
    function = re.search(rf"def {call[1]}\(([^)]*)\)", text) if call else None
    if call and function:
        names = [re.split(r"[:=\s]", part.strip())[0].lower() for part in function[1].split(",")]
        yield names[: len(re.findall(r"sys\.argv\[[1-9]\]", call[2]))]
    assigned = dict(re.findall(r"^\s*(?!if\b)(\w+)\s*=[^=\n]*?sys\.argv\[([1-9])\]", text, flags=re.M))
    places = {int(number): name.lower() for name, number in assigned.items()}
    yield [places.get(i, "") for i in range(1, max(places, default=0) + 1)]
    yield [name.lower() for name in re.findall(r"add_argument\(\s*[\"']([a-z]\w*)[\"']", text)]
    usage = re.search(r"usage:[^\n]*?\.py((?:[ \t]+['(<]*\w+[')>]*)+)", text, flags=re.I)
    yield re.findall(r"\w+", usage[1].lower()) if usage else []


def generate(pair: ScriptPair, workspace: Path, *, timeout_s: float = 120) -> Generated:
    """Run the generator in `workspace`. Raises CaseError with the script's own last words when it fails."""
    if _is_flat(pair):
        shutil.copytree(pair.folder, workspace, dirs_exist_ok=True)
        script = workspace / pair.generator.name
    else:
        for part in ("input", "output"):
            (workspace / part).mkdir(parents=True, exist_ok=True)
        script = pair.generator
    before = set(_files(workspace))
    _run(script, pair.generator_arguments, workspace, timeout_s)
    made = sorted(set(_files(workspace)) - before)
    data = [f for f in made if not f.endswith((".py", ".pyc"))]
    goldens = tuple(f for f in data if "golden" in Path(f).name.lower())
    return Generated(pair, workspace, tuple(f for f in data if f not in goldens), goldens)


def verify(generated: Generated, *, timeout_s: float = 120) -> str:
    """Run the verifier over what the operator wrote; the text it printed. Raises CaseError when it says no."""
    pair = generated.pair
    script = generated.workspace / pair.verifier.name if _is_flat(pair) else pair.verifier
    arguments = pair.verifier_arguments
    if not arguments and not _is_flat(pair):
        arguments = tuple(f for both in zip(generated.outputs, generated.goldens, strict=True) for f in both)
    text = _run(script, arguments, generated.workspace, timeout_s)
    if re.search(r"\[ERROR\]|(?<!\b0 )FAILED|test failed", text):
        raise CaseError(f"the verifier says: {text.strip().splitlines()[-1]}", where=str(pair.verifier))
    return text


def self_check(pair: ScriptPair, workspace: Path, *, timeout_s: float = 120) -> Generated:
    """Generate, hand golden in as the operator's output, verify. Raises CaseError where any step fails.

    Where the arguments are guessed, other element types and shapes are tried as well; the error is then that of the first try.
    """
    first: CaseError | None = None
    for number, variant in enumerate(_variants(pair)):
        try:
            return _checked(variant, workspace / str(number) if number else workspace, timeout_s)
        except CaseError as error:
            first = first or error
    assert first is not None
    raise first


def _checked(pair: ScriptPair, workspace: Path, timeout_s: float) -> Generated:
    generated = generate(pair, workspace, timeout_s=timeout_s)
    if not generated.goldens:
        raise CaseError("the generator writes no golden file", where=str(pair.generator))
    for golden, output in zip(generated.goldens, generated.outputs, strict=True):
        (workspace / output).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(workspace / golden, workspace / output)
    try:
        verify(generated, timeout_s=timeout_s)
    except CaseError as error:
        # A single result under a name of its own, which only the verifier knows.
        lost = _LOST_FILE.search(error.what)
        if lost is None or len(generated.goldens) != 1:
            raise
        shutil.copyfile(workspace / generated.goldens[0], workspace / lost[1])
        verify(generated, timeout_s=timeout_s)
    return generated


def _is_flat(pair: ScriptPair) -> bool:
    """Unit-test folders keep scripts and data together; samples run from a build folder."""
    return pair.verifier.name == "compare_data.py"


def _files(workspace: Path) -> Iterator[str]:
    for file in workspace.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            yield str(file.relative_to(workspace))


def _run(script: Path, arguments: Sequence[str], workspace: Path, timeout_s: float) -> str:
    command = [sys.executable, str(script), *arguments]
    environment = dict(os.environ)
    if _OLD_NUMPY.search(script.read_text(errors="replace")):
        environment["PYTHONPATH"] = os.pathsep.join([str(OLD_NUMPY), environment.get("PYTHONPATH", "")])
    try:
        done = subprocess.run(
            command,
            cwd=workspace,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CaseError(f"{script.name} runs longer than {timeout_s:g} s", where=str(script)) from error
    if done.returncode != 0:
        lines = [
            line for line in (done.stdout + done.stderr).splitlines() if line.strip() and not _LOG_LINE.match(line)
        ]
        last = lines[-1] if lines else "no output"
        raise CaseError(
            f"{script.name} {shlex.join(arguments)} exits with {done.returncode}: {last}", where=str(script)
        )
    return done.stdout


def _texts_around(folder: Path) -> Iterator[str]:
    """Files that may show how the scripts are called: the sample's documents, or the unit test next to the data."""
    places = [folder, folder.parent]
    for place in places:
        for pattern in ("README*.md", "*.sh", "test_*.cpp", "*.cpp"):
            for file in sorted(place.glob(pattern)):
                if file.stat().st_size < 1 << 20:
                    yield file.read_text(errors="replace")


def _arguments_of(script: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Arguments of the first call of `script` in `texts`, shell variables replaced by 1 or their default."""
    pattern = re.compile(re.escape(script) + r"([ \t](?:'[^'\n]*'|[^\n\"`;&|)'])*|)")
    candidates: list[tuple[str, ...]] = []
    for text in texts:
        for command in commands(script, text):
            with contextlib.suppress(ValueError):
                words = tuple(shlex.split(command))
                if not any(word.startswith(("<", "[")) for word in words):
                    candidates.append(words)
        defaults = _assignments(text)
        for match in pattern.finditer(text.replace('" \\\n', "").replace("\\\n", " ")):
            rest = re.split(r"\s#|//|[│├└]", match[1])[0].strip()
            rest = _VARIABLE.sub(lambda m, known=defaults: known.get(m[0].strip("${}"), "1"), rest)
            try:
                words = tuple(shlex.split(rest))
            except ValueError:
                continue
            if words and all(_plausible(word) for word in words):
                candidates.append(words)
    return next((words for words in candidates if words and not any(map(_PLACEHOLDER.fullmatch, words))), ())


def _assignments(text: str) -> Mapping[str, str]:
    return dict(re.findall(r"^\s*(?:export\s+)?(\w+)=([\w.]+)\s*$", text, flags=re.M))


def _plausible(word: str) -> bool:
    """Whether a word can be an argument: prose is not ASCII or ends in punctuation; + and " come from C++ strings."""
    prose = ("and", "is", "to", "for", "the", "script")
    return (
        word.isascii()
        and not any(c in word for c in '+"<')
        and not word.endswith((".", ":", ","))
        and word not in prose
    )


def write(
    folder: Path, case: Case, goldens: Sequence[Array], *, rtol: float, atol: float, bad_share: float
) -> ScriptPair:
    """Write `case` as a script pair: its data as .bin files, and the two scripts with the usual contract.

    Inputs go to scripts/data, because a sample's generator must not need this package to run.
    """
    scripts_folder = folder / "scripts"
    data = scripts_folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    moved = []
    for argument, value in zip(case.arguments, case.arrays(), strict=True):
        for number, array in enumerate(value if isinstance(value, list) else [] if value is None else [value]):
            name = f"input_{argument.name}{number if isinstance(value, list) else ''}.bin"
            array.tofile(data / name)
            moved.append(("input", name))
    for number, golden in enumerate(goldens):
        name = f"golden{number if len(goldens) > 1 else ''}.bin"
        golden.tofile(data / name)
        moved.append(("output", name))
    generator, verifier = scripts_folder / "gen_data.py", scripts_folder / "verify_result.py"
    generator.write_text(_GENERATOR.format(case=case.name, files=moved))
    dtype = goldens[0].dtype.name if goldens else "float32"
    verifier.write_text(_VERIFIER.format(case=case.name, dtype=dtype, rtol=rtol, atol=atol, bad_share=bad_share))
    return pair_of(generator, verifier)


_GENERATOR = '''"""Puts the data of case {case} where the kernel program expects it."""
import pathlib
import shutil

DATA = pathlib.Path(__file__).parent / "data"
FILES = {files}

for folder, name in FILES:
    pathlib.Path(folder).mkdir(exist_ok=True)
    shutil.copyfile(DATA / name, pathlib.Path(folder) / name)
'''

_VERIFIER = '''"""Compares the result of case {case} with golden: verify_result.py RESULT GOLDEN."""
import sys

import numpy as np

try:
    import ml_dtypes  # noqa: F401  makes bfloat16 and float8 known to NumPy
except ImportError:
    pass

RTOL, ATOL, BAD_SHARE = {rtol}, {atol}, {bad_share}
actual, golden = (np.fromfile(path, np.dtype("{dtype}")).astype(np.float64) for path in sys.argv[1:3])
if actual.size != golden.size:
    sys.exit(f"[ERROR] result has {{actual.size}} elements, golden {{golden.size}}")
bad = np.flatnonzero(~np.isclose(actual, golden, rtol=RTOL, atol=ATOL, equal_nan=True))
for index in bad[:100]:
    expected, got = golden[index], actual[index]
    rdiff = abs(got - expected) / (abs(expected) + 1e-30)
    print("data index: %06d, expected: %-.9f, actual: %-.9f, rdiff: %-.6f" % (index, expected, got, rdiff))
share = bad.size / max(golden.size, 1)
print("error ratio: %.4f, tolerance: %.4f" % (share, BAD_SHARE))
if share > BAD_SHARE:
    sys.exit("[ERROR] result error")
print("test pass!")
'''

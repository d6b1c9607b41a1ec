"""`toprope new --from kernel.py:name`: the project of an operator written in the tile language, its NumPy evaluation as the reference."""

from __future__ import annotations

import importlib.util
import traceback
from pathlib import Path

from toprope.errors import BadInput, TopropeError
from toprope.new.files import build_files
from toprope.new.prototype import camel
from toprope.tile import project_files
from toprope.tile.kernel import TileKernel
from toprope.tile.project import index_bounds

_GOLDEN = '''\
"""The reference of {op}: the tile function itself, which runs on NumPy tiles and agrees with the kernel bit for bit."""

import importlib.util
import pathlib

import ml_dtypes  # noqa: F401  makes bfloat16 known to NumPy
import numpy as np

_spec = importlib.util.spec_from_file_location("tile_source", pathlib.Path(__file__).parent / "tile" / "{file}")
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)


def {name}({inputs}):
    """Inputs in the kernel's order; one array for each output."""
    given = [np.ascontiguousarray(a, np.dtype(t)) for a, t in zip(({inputs},), {types}, strict=True)]
    sizes = {sizes}
    outputs = [np.zeros(shape, np.dtype(t)) for shape, t in {outputs}]
    named = dict(zip({names}, [*given, *outputs], strict=True))
    _module.{name}(*(named[n] for n in {order}))
    return outputs
'''
_README = """\
# {op}

Made from the tile function `{name}` in `tile/{file}`; change it there and make the project again, or go on in C++:

| file | what |
|---|---|
| `op_kernel/{name}.cpp`, `op_kernel/{name}_tiling.h` | the kernel and what the host tells it |
| `op_host/{name}.cpp` | tiling, output shapes, the prototype |
| `golden.py`, `cases.toml` | the reference (the tile function) and the cases |

`toprope test .` runs the cases on the software NPU. `./build.sh` makes the operator package with a CANN toolkit.
"""


def load_tile_kernel(text: str) -> tuple[Path, TileKernel]:
    """The file and the tile kernel that "file.py:name" names. Raises BadInput."""
    path, _, name = text.rpartition(":")
    file = Path(path)
    if not path or not file.is_file():
        raise BadInput(f"{text!r} names no tile function", cure="write --from kernel.py:softmax")
    spec = importlib.util.spec_from_file_location(f"tile_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except TopropeError:
        raise
    except Exception as error:  # the file's own code: anything can come out of it
        inside = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(file)]
        line = error.lineno if isinstance(error, SyntaxError) else inside[-1] if inside else None
        raise BadInput(
            f"{file}{f':{line}' if line else ''}: {type(error).__name__}: {error}", cure="correct the file there"
        ) from error
    found = {k: v for k, v in vars(module).items() if isinstance(v, TileKernel)}
    if name not in found:
        raise BadInput(f"{file} has no tile function {name}", cure=f"it has {', '.join(found) or 'none'}")
    return file, found[name]


def tile_project_files(file: Path, kernel: TileKernel, units: tuple[str, ...]) -> dict[str, str]:
    """Path in the project -> text. Raises TileError where the tile function cannot become a project."""
    op, inputs = camel(kernel.name), {n: p for n, p in kernel.params.items() if not p.written}
    outputs = {n: p for n, p in kernel.params.items() if p.written}
    homes = {d.name: f"{n}.shape[{axis}]" for n, p in reversed(inputs.items()) for axis, d in enumerate(p.dims)}
    shapes = [f"(({''.join(f'sizes[{d.name!r}], ' for d in p.dims)}), {p.dtype.name!r})" for p in outputs.values()]
    golden = _GOLDEN.format(
        op=op,
        name=kernel.name,
        file=file.name,
        inputs=", ".join(inputs),
        types=[p.dtype.name for p in inputs.values()],
        sizes="{" + ", ".join(f"{d!r}: {home}" for d, home in homes.items()) + "}",
        outputs="[" + ", ".join(shapes) + "]",
        names=[*inputs, *outputs],
        order=list(kernel.params),
    )
    return {
        **project_files(kernel),
        **build_files(op, kernel.name, units),
        f"tile/{file.name}": file.read_text(),
        "golden.py": golden,
        "cases.toml": _cases(kernel),
        "README.md": _README.format(op=op, name=kernel.name, file=file.name),
    }


def _cases(kernel: TileKernel) -> str:
    """Two sizes for each dimension: a small odd one, and one that needs several tiles and a tail."""
    bounds = index_bounds(kernel)
    blocks = [
        f'# Test cases: toprope test .\n[operator]\nname = "{kernel.name}"\ngolden = "golden.py:{kernel.name}"\nrun = "project"\n'
    ]
    for name, wanted in (("small", (5, 77, 33)), ("several_tiles", (50, 1111, 130))):
        sizes: dict[str, int] = {}
        for p in kernel.params.values():
            for d in p.dims:
                if d.name not in sizes:
                    least = wanted[len(sizes) % 3]
                    multiple = d.multiple_of
                    size = max(d.min, -(-least // multiple) * multiple)
                    sizes[d.name] = min(size, d.max // multiple * multiple)

        def fill(array: str) -> str:
            """Indices lie in the dimension that they index."""
            if array not in bounds:
                return ""
            return f', fill = {{ kind = "uniform", low = 0, high = {sizes[bounds[array]] - 1} }}'  # noqa: B023

        inputs = ",\n  ".join(
            f'{{ name = "{n}", dtype = "{p.dtype.name}", shape = {[sizes[d.name] for d in p.dims]}{fill(n)} }}'
            for n, p in kernel.params.items()
            if not p.written
        )
        outputs = ", ".join(
            f'{{ name = "{n}", dtype = "{p.dtype.name}" }}' for n, p in kernel.params.items() if p.written
        )
        blocks.append(
            f'[[cases]]\nname = "{name}"\nkind = "general"\ninputs = [\n  {inputs},\n]\noutputs = [{outputs}]\n'
        )
    return "\n".join(blocks)

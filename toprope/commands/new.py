"""toprope new: a complete operator project from a JSON prototype, a one-line signature, or a tile function."""

from __future__ import annotations

import argparse
from pathlib import Path

from toprope.commandline import Parser
from toprope.errors import BadInput
from toprope.new.files import DEFAULT_UNITS, Skeleton, project_files, write_project
from toprope.new.from_tile import load_tile_kernel, tile_project_files
from toprope.new.from_triton import is_triton, triton_project_files
from toprope.new.prototype import Prototype, from_json, from_signature

_EPILOG = """\
SOURCE is a JSON prototype (msopgen's fields), or a signature:

  toprope new "add_custom(x: f16|f32, y: f16|f32, bias?: f16|f32, more*: f16|f32, alpha: float = 1.0) -> z"

  x: f16|f32   an input; the k-th types of all tensors belong together    x?: optional    x*: a list of tensors
  n: int       an attribute: int, float, bool, str, list[int] ...         n: int = 1      with a default
  -> z, m: u8  outputs; one without a type has those of the first input

then:  toprope test add_custom
"""


def main(argv: list[str]) -> int:
    """Exit code 0; 2 for a prototype or a folder that cannot be used, with nothing written."""
    p = Parser(
        prog="toprope new",
        description="Write an operator project that passes its tests at once.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("source", nargs="?", metavar="SOURCE", help="prototype.json or a signature")
    p.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="where to (default: the operator's name)")
    p.add_argument("--out", type=Path, metavar="FOLDER", help="the same")
    p.add_argument(
        "--from",
        dest="tile",
        metavar="FILE.py:NAME",
        help="make it from a function in the tile language, or a Triton function",
    )
    p.add_argument(
        "--launch",
        default="",
        metavar="TEXT",
        help="how a Triton function is launched: x=float32[n], n=n, BLOCK=64, grid=cdiv(n, BLOCK)",
    )
    p.add_argument("--op", default="", metavar="TYPE", help="which operator of the JSON file, if it holds several")
    p.add_argument(
        "--units",
        default=",".join(DEFAULT_UNITS),
        metavar="LIST",
        help=f"compute units of AddConfig (default {','.join(DEFAULT_UNITS)})",
    )
    options = p.parse_intermixed_args(argv)
    units = tuple(u.strip() for u in options.units.split(",") if u.strip())
    if not units or not all(u.startswith("ascend") and u.replace("_", "").isalnum() for u in units):
        raise BadInput(
            f"--units {options.units}: no compute unit (msopgen error 14)", cure="for example ascend910b,ascend910_93"
        )
    if options.tile:
        if options.source and options.folder:
            raise BadInput("--from takes the place of SOURCE", cure="toprope new --from kernel.py:softmax FOLDER")
        if is_triton(Path(options.tile.rpartition(":")[0])):
            name, files = triton_project_files(options.tile, options.launch, units)
        else:
            file, kernel = load_tile_kernel(options.tile)
            name, files = kernel.name, tile_project_files(file, kernel, units)
        folder = options.out or (Path(options.source) if options.source else Path(name))
        meaning = f"the function {name}"
    else:
        if not options.source:
            raise BadInput("no prototype given", cure="toprope new prototype.json, or toprope new --help")
        prototype = _prototype(options.source, options.op)
        name, files = prototype.name, project_files(prototype, units)
        folder = options.out or options.folder or Path(name)
        meaning = "a skeleton: " + "; ".join(Skeleton(prototype, o).meaning for o in prototype.outputs)
    write_project(files, folder)
    print(f"{folder}: {len(files)} files. The kernel is {meaning}.")
    print(f"next:  toprope test {folder}")
    return 0


def _prototype(source: str, op: str) -> Prototype:
    if "(" in source:
        return from_signature(source)
    path = Path(source)
    if not path.is_file():
        raise BadInput(
            f"there is no file {source}",
            cure='give a JSON prototype, or a signature such as "add(x: f16, y: f16) -> z"',
        )
    return from_json(path, op)

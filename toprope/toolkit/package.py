"""An operator project as an installable package: what the vendor lays under opp/vendors/NAME, and a file that installs it."""

from __future__ import annotations

import argparse
import io
import json
import platform
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from toprope.build import compiled, compiler, shared_library
from toprope.errors import BadInput, TopropeError
from toprope.project.loaded import ProjectOperator, operators_of
from toprope.toolkit.aclnn import functions, header, header_name
from toprope.toolkit.compiler import toolkit
from toprope.toolkit.plans import PACKAGE

_INSTALLER = """#!/bin/sh
# Installs operators of {vendor} under opp/vendors; --install-path=DIR chooses where.
set -e
to="${{ASCEND_OPP_PATH:+$ASCEND_OPP_PATH/vendors}}"
for word in "$@"; do
  case "$word" in
    --install-path=*) to="${{word#--install-path=}}/vendors" ;;
    --quiet|--install|--full|--upgrade|-q) ;;
    *) echo "unknown option $word; known: --install-path=DIR --quiet" >&2; exit 2 ;;
  esac
done
[ -n "$to" ] || {{ echo "set ASCEND_OPP_PATH or give --install-path=DIR" >&2; exit 2; }}
mkdir -p "$to"
begin=$(awk '/^__ARCHIVE__$/ {{ print NR + 1; exit }}' "$0")
rm -rf "$to/{vendor}"
tail -n +"$begin" "$0" | tar xzf - -C "$to"
echo "load_priority={vendor}" > "$to/config.ini"
echo "SUCCESS: installed to $to/{vendor}"
echo "use it: export ASCEND_CUSTOM_OPP_PATH=$to/{vendor}"
exit 0
__ARCHIVE__
"""


def main(argv: list[str]) -> int:
    """Exit code 0, or 1 with what is wrong on stderr."""
    p = argparse.ArgumentParser(prog="toprope-package", description="Pack an operator project.")
    p.add_argument("--source", type=Path, required=True)
    p.add_argument("--vendor", default="customize")
    p.add_argument("--type", default="run", choices=["run", "static", "shared", "folder", "lib"])
    p.add_argument("--out", type=Path, required=True)
    options = p.parse_args(argv)
    try:
        made = pack(options.source, options.vendor, options.out)
    except TopropeError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"packed {', '.join(made)} into {options.out}")
    return 0


def pack(source: Path, vendor: str, out: Path) -> list[str]:
    """Write `out`/vendors/VENDOR and the .run file; the operators' types. Raises BadInput, CompileFailed, MissingHostSource."""
    found = operators_of(source)
    place = out / "packages" / "vendors" / vendor
    shutil.rmtree(place, ignore_errors=True)
    (place / "op_api" / "include").mkdir(parents=True)
    (place / "op_api" / "lib").mkdir()
    for folder in ("op_impl/ai_core/tbe", "op_proto/inc", "framework", "bin"):
        (place / folder).mkdir(parents=True)
    definitions = [o.definition for o in found]
    for each in definitions:
        (place / "op_api" / "include" / f"aclnn_{header_name(each)}.h").write_text(header(each, inline=False))
    _functions(found, place / "op_api" / "lib" / "libcust_opapi.so")
    project = place / PACKAGE / source.resolve().name
    ignored = shutil.ignore_patterns("build", "build_out", ".git", "__pycache__", out.name)
    shutil.copytree(source, project, ignore=ignored)
    index = {f"aclnn{d.type}": project.name for d in definitions}
    (place / PACKAGE / "index.json").write_text(json.dumps(index, indent=1))
    (place / "bin" / "set_env.bash").write_text(
        'here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)\n'
        'export ASCEND_CUSTOM_OPP_PATH="$here${ASCEND_CUSTOM_OPP_PATH:+:$ASCEND_CUSTOM_OPP_PATH}"\n'
        'export LD_LIBRARY_PATH="$here/op_api/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"\n'
    )
    _installer(place, vendor, out / f"custom_opp_linux_{platform.machine()}.run")
    return [d.type for d in definitions]


def _functions(found: Sequence[ProjectOperator], target: Path) -> None:
    text = '#include "acl/aclnn.h"\nextern "C" {\n' + "".join(functions(o.definition) for o in found) + "}\n"
    made = shared_library(text, extra=("-O1",), object_only=True)
    lib = toolkit() / "lib64"
    compiled(
        [*compiler().command, str(made), "-shared", "-Wl,-soname,libcust_opapi.so", f"-L{lib}", f"-Wl,-rpath,{lib}", "-lascendcl", "-o", str(target)]
    )  # fmt: skip


def _installer(place: Path, vendor: str, target: Path) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        archive.add(place, vendor)
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as partial:
        partial.write(_INSTALLER.format(vendor=vendor).encode() + data.getvalue())
    Path(partial.name).chmod(0o755)
    Path(partial.name).replace(target)


def launch_headers(argv: list[str]) -> int:
    """aclrtlaunch_<kernel>.h of each kernel of a source, into a folder."""
    from toprope.toolkit.source import kernels, launch_header

    source, folder = Path(argv[0]), Path(argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    found = kernels(source)
    if not found:
        print(
            f"{BadInput(f'{source} has no kernel', cure='name a source with a __global__ function')}", file=sys.stderr
        )
        return 1
    for entry in found:
        file, text = folder / f"aclrtlaunch_{entry.name}.h", launch_header(entry)
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
    return 0

"""The table of the vendor's header paths, and the folders made from it."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from toprope import build
from toprope.vendor_paths import INCLUDE, SEAMS, TABLE, search_folder, stand_alone, table

KERNEL = """
extern "C" __global__ __aicore__ void nothing(GM_ADDR x) {}
int main() { return 0; }
"""


def compile_program(source: Path, *folders: Path, defines: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    flags = ["-std=c++17", "-w", "-fpermissive", *(f"-D{d}" for d in defines), *(f"-I{f}" for f in folders)]
    return subprocess.run(
        [*build.compiler().command, *flags, "-fsyntax-only", str(source)], capture_output=True, text=True
    )


def test_the_table_is_sorted_and_leads_to_headers_of_ours() -> None:
    rows = [line for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    assert rows == sorted(set(rows)) and len(rows) == len({(r.seam, r.path) for r in table()}) > 300
    for row in table():
        assert row.seam in SEAMS
        assert all((INCLUDE / header).is_file() for header in row.headers), row
        own = INCLUDE / ("host" if row.seam == "host" else "") / row.path
        assert not own.exists(), f"{row.path} is a header of ours; the row says nothing"


def test_the_header_library_is_ours_alone() -> None:
    code = [p for p in INCLUDE.rglob("*") if p.suffix in (".h", ".hpp", ".cpp")]
    assert len(code) <= 210
    rooms = {p.relative_to(INCLUDE).parts[0] for p in code if p.parent != INCLUDE}
    assert rooms == {"machine", "api", "lib", "reg", "host", "acl"}
    lines = {p: [x for x in p.read_text().splitlines() if x and not x.startswith(("//", "#pragma once"))] for p in code}
    rows_to_be = [p.name for p, text in lines.items() if len(text) <= 1 and "".join(text).startswith("#include")]
    assert not rows_to_be, "a path that leads to one header is a row of vendor_paths.tsv"


def test_folders_are_made_once_whole_and_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPROPE_CACHE", str(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: search_folder("any"), range(16)))
    assert len(made) == 1 and [p.name for p in (tmp_path / "vendor_paths").iterdir()] == [made.pop().name]
    folder = search_folder("host")
    assert {p.relative_to(folder).as_posix() for p in folder.rglob("*.h")} == {
        r.path for r in table() if r.seam == "host"
    }
    before = folder.stat().st_mtime_ns
    assert search_folder("host").stat().st_mtime_ns == before
    one = stand_alone()
    monkeypatch.setenv("TOPROPE_CACHE", str(tmp_path / "other"))
    assert stand_alone() != one and stand_alone().name == one.name


def test_every_vendor_path_compiles_from_one_folder(tmp_path: Path) -> None:
    """As a C++ project does it that keeps a copy of the headers: no Python, one -I, a folder with a space in its name."""
    vendored = tmp_path / "third party" / "toprope"
    shutil.copytree(stand_alone(), vendored)
    for seam, defines in (("any", ()), ("host", ("TOPROPE_HOST=1",))):
        source = tmp_path / f"{seam}.cpp"
        begin = '#include "standalone.h"\n' if seam == "any" else ""
        includes = "".join(f'#include "{row.path}"\n' for row in table() if row.seam == seam)
        source.write_text(begin + includes + (KERNEL if seam == "any" else ""))
        done = compile_program(source, vendored, defines=defines)
        assert done.returncode == 0, done.stderr[:2000]


def test_paths_of_real_headers_and_of_rows_lie_side_by_side(tmp_path: Path) -> None:
    """register/, tiling/ and exe_graph/runtime/ hold both; from one folder and from the folders of a compile here."""
    source = tmp_path / "host.cpp"
    names = (
        "register/op_def_registry.h", "register/op_impl_kernel_registry.h", "exe_graph/runtime/shape.h", "exe_graph/runtime/range.h",
        "platform/platform_ascendc.h", "platform/platform_info.h", "tiling/tiling_api.h", "lib/matmul/tiling.h", "acl/acl.h", "acl/acl_op.h",
        "tikicpulib.h", "utils/log/asc_cpu_log.h", "aclnn/acl_meta.h",
    )  # fmt: skip
    source.write_text("".join(f'#include "{name}"\n' for name in names))
    for folders in ((stand_alone(),), (*build.header_folders(), *build.host_folders())):
        done = compile_program(source, *folders, defines=("TOPROPE_HOST=1",))
        assert done.returncode == 0, done.stderr[:2000]


def test_a_new_row_leaves_what_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPROPE_CACHE", str(tmp_path / "cache"))
    first = build.shared_library('#include "machine/block_sizes.h"\nint one() { return 1; }\n')
    monkeypatch.setattr(build, "search_folder", lambda seam: search_folder("host"))
    assert build.shared_library('#include "machine/block_sizes.h"\nint one() { return 1; }\n') == first
    assert len(list((tmp_path / "cache").glob("*.so"))) == 1  # and nothing was compiled again


@pytest.mark.slow
@pytest.mark.parametrize("seam", SEAMS)
def test_every_vendor_path_compiles_alone(seam: str, tmp_path: Path) -> None:
    folder, paths = stand_alone(), [r.path for r in table() if r.seam == seam]
    texts = {"".join(f"{h} " for h in r.headers): r.path for r in table() if r.seam == seam}
    assert paths
    failed = []
    for path in texts.values():  # one path for each set of headers: the others are the same bytes
        source = tmp_path / "alone.cpp"
        source.write_text(f'#include "{path}"\n')
        done = compile_program(source, folder, defines=("TOPROPE_HOST=1",) if seam == "host" else ())
        failed += [f"{path}\n{done.stderr[:400]}"] if done.returncode else []
    assert not failed

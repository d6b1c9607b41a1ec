"""The toolkit's folder: built once from this installation's files, found again by their state."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from toprope.build import compiled, compiler, shared_library
from toprope.cache import cache_dir, scratch
from toprope.errors import BadChip, BadInput
from toprope.toolkit.operator_library import TABLE, header_texts, library_text
from toprope.vendor_paths import INCLUDE, stand_alone

HERE = Path(__file__).parent
RUNTIME = HERE / "runtime"
# Libraries that programs name when they link or load; what they look for is in libascendcl.
ALIASES = (
    "runtime", "register", "platform", "tiling_api", "graph", "graph_base", "ge_runner", "ge_compiler", "gert", "exe_graph", "rt2_registry",
    "hccl", "acl_op_compiler", "acl_tdt_channel", "acl_tdt_queue", "acl_rt", "acl_rtc", "acl_mdl", "acl_op_executor", "acl_cblas", "acl_retr", "nnopbase",
    "unified_dlog", "ascendalog", "alog", "error_manager", "profapi", "msprofiler", "ascend_dump", "ascendc_dump", "c_sec", "mmpa", "runtime_camodel", "npu_drv",
    "ascendc_runtime", "lowering", "opp_registry", "optiling", "metadef", "opbase",
)  # fmt: skip
# Commands in bin/ and the modules that answer them.
COMMANDS = {
    "bisheng": "toprope.toolkit.compiler",
    "ccec": "toprope.toolkit.compiler",
    "msopgen": "toprope.commands.vendor_commands:msopgen",
    "npu-smi": "toprope.commands.vendor_commands:npu_smi",
    "toprope-package": "toprope.toolkit.package",
    "toprope-launch-headers": "toprope.toolkit.package:launch_headers",
    "toprope-recorder": "toprope.toolkit.recorder",
}


def prefix() -> Path:
    """The toolkit's folder for this installation and this compiler, built if it is not there. Raises NoCompiler, CompileFailed, BadInput."""
    place = cache_dir() / f"toolkit-{_key()}"
    if (place / "complete").exists():
        return place
    if sys.platform != "linux":
        raise BadInput(
            "the toolkit is a set of ELF libraries, which need Linux", cure="use toprope run, check, profile here"
        )
    with _alone(place.name):
        if not (place / "complete").exists():
            with scratch() as folder:
                _fill(folder / "prefix", place)
                if place.exists():
                    shutil.rmtree(place)
                os.replace(folder / "prefix", place)
            _sweep(place)
    return place


def built() -> Path | None:
    """The toolkit's folder if it has been built."""
    place = cache_dir() / f"toolkit-{_key()}"
    return place if (place / "complete").exists() else None


def is_ours(home: Path) -> bool:
    """Whether a toolkit's folder was laid out here, by this or another version."""
    return (home / "share" / "toprope").is_dir()


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    """One process builds, the others wait for it."""
    import fcntl

    with (cache_dir() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sweep(place: Path) -> None:
    for old in cache_dir().glob("toolkit-*"):
        with contextlib.suppress(OSError):
            if old.is_dir() and old != place and time.time() - old.stat().st_mtime > 24 * 3600:
                shutil.rmtree(old)
                (cache_dir() / f"{old.name}.lock").unlink(missing_ok=True)


def _key() -> str:
    """The state of everything that the folder is made of: the files, the Python and the compiler."""
    found = shutil.which(os.environ.get("TOPROPE_CXX") or os.environ.get("CXX") or "g++")
    stamp = os.stat(found) if found else None
    rows = [
        sys.executable,
        found,
        stamp and (stamp.st_size, stamp.st_mtime_ns),
        os.environ.get("TOPROPE_MARCH", ""),
        _files(),
    ]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]


def _files() -> str:
    """Names, sizes and dates of this installation's files that the folder is made of."""
    # The commands run this installation's modules as they are; of those only these decide what the folder holds.
    mine = [p.stat() for p in (Path(__file__), HERE / "operator_library.py", TABLE)]
    rows: list[object] = [(s.st_size, s.st_mtime_ns) for s in mine]
    for folder in (INCLUDE, RUNTIME, HERE / "cmake", HERE.parent / "soc"):
        rows += _states(folder)
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def check_current(place: Path) -> None:
    """Raises BadInput for a toolkit's folder that was made of other files than this installation has now."""
    if (place / "complete").read_text() != _files():
        raise BadInput(
            f"toprope has changed since {place} was made, and this environment still names it",
            cure='eval "$(toprope env)" in a new shell, and build again from an empty folder',
        )


def _states(folder: Path) -> list[object]:
    rows: list[object] = []
    for entry in sorted(os.scandir(folder), key=lambda e: e.name) if folder.is_dir() else []:
        if entry.is_dir():
            rows += _states(Path(entry.path)) if entry.name != "__pycache__" else []
        else:
            status = entry.stat()
            rows.append((entry.path, status.st_size, status.st_mtime_ns))
    return rows


def _fill(folder: Path, place: Path) -> None:
    """Everything of the toolkit in `folder`, which will be moved to `place`."""
    for name in (
        "include",
        "lib64",
        "bin",
        "share/toprope",
        "opp/vendors",
        "opp/built-in",
        "tools",
        "lib/cmake",
        "python/site-packages",
    ):
        (folder / name).mkdir(parents=True)
    _headers(folder / "include")
    _chips(folder / "share" / "toprope" / "chips.tsv")
    _libraries(folder)
    for command, module in COMMANDS.items():
        _command(folder / "bin" / command, module)
    shutil.copytree(HERE / "cmake", folder / "lib" / "cmake" / "ASC")
    for package in ("ascendc_kernel_cmake", "ASCEND"):
        (folder / "lib" / "cmake" / package).mkdir()
    (folder / "cmake").symlink_to(Path("lib") / "cmake")
    (folder / "lib64" / "cmake").symlink_to(Path("..") / "lib" / "cmake")
    for layout in ("compiler", "runtime", "toolkit", "fwkacllib", "x86_64-linux", "aarch64-linux", "ccec_compiler"):
        (folder / layout).symlink_to(".")
    (folder / "tools" / "msopgen").mkdir()
    (folder / "tools" / "ccec_compiler").symlink_to("..")
    (folder / "tools" / "tikcpp").symlink_to(Path("..") / "tikcpp")
    (folder / "tikcpp").mkdir()
    (folder / "tikcpp" / "tikcfw").symlink_to(place / "include")
    (folder / "tikcpp" / "ascendc_kernel_cmake").symlink_to(place / "lib" / "cmake" / "ASC")
    (folder / "version.cfg").write_text("version=8.5.0.toprope\nruntime_running_version=[8.5.0.toprope]\n")
    (folder / "ascend_toolkit_install.info").write_text(
        "package_name=Ascend-cann-toolkit\nversion=8.5.0.toprope\narch=x86_64\nos=linux\n"
    )
    (folder / "set_env.sh").write_text("".join(f"export {line}\n" for line in shell_lines(place)))
    (folder / "bin" / "setenv.bash").symlink_to(place / "set_env.sh")
    (folder / "complete").write_text(_files())


def shell_lines(place: Path) -> list[str]:
    """NAME="value" for each variable that programs expect; folders are put before what the variables hold already."""
    plain = {
        name: f'"{place}"'
        for name in (
            "ASCEND_HOME_PATH",
            "ASCEND_TOOLKIT_HOME",
            "ASCEND_AICPU_PATH",
            "TOOLCHAIN_HOME",
            "TOPROPE_TOOLKIT",
        )
    }
    plain["ASCEND_OPP_PATH"] = f'"{place}/opp"'
    before = {
        "PATH": f"{place}/bin",
        "LD_LIBRARY_PATH": f"{place}/lib64",
        "CMAKE_PREFIX_PATH": f"{place}",
        "PYTHONPATH": f"{place}/python/site-packages",
    }
    return [f"{n}={v}" for n, v in plain.items()] + [f'{n}="{v}${{{n}:+:${n}}}"' for n, v in before.items()]


def variables(place: Path, known: dict[str, str]) -> dict[str, str]:
    """The same as `shell_lines`, for a child process with the environment `known`."""
    out = {}
    for line in shell_lines(place):
        name, _, value = line.partition("=")
        text, _, rest = value.strip('"').partition("${")
        out[name] = text + (f":{known[name]}" if rest and known.get(name) else "")
    return out


def _headers(folder: Path) -> None:
    """include/: our headers and the vendor's paths to them, and the operators' functions."""
    shutil.copytree(stand_alone(), folder, dirs_exist_ok=True)
    (folder / "aclnnop").symlink_to(Path("..") / "generated" / "aclnnop")


def _chips(file: Path) -> None:
    """What the device library has to know of each chip: one row each, the numbers of host/state.h first."""
    from toprope.project.host import chip_numbers
    from toprope.runtime import SPACES_OF
    from toprope.soc import load, names
    from toprope.trace import CORE_TYPES, SPACES

    rows = []
    for name in names():
        try:
            soc = load(name)
            numbers = chip_numbers(soc)
            host = [int(getattr(numbers, field[0])) for field in numbers._fields_[1:]]
            spaces = [
                soc.bytes_of(space) if space in SPACES_OF[core_type] else 0
                for core_type in CORE_TYPES
                for space in SPACES
            ]
        except BadChip as error:
            rows.append(f"# {name}: {error.message}")
            continue
        rows.append(" ".join(map(str, [name, "Ascend" + name.removeprefix("ascend").upper(), soc.aiv, *host, *spaces])))
    # A chip that kernels do not name is the first of its architecture.
    first = ["ascend910b1", "ascend310p3", "ascend310b1", "ascend910a", "ascend950pr_957x"]
    rows.sort(
        key=lambda row: (row.startswith("#"), first.index(row.split()[0]) if row.split()[0] in first else len(first))
    )
    file.write_text("\n".join(rows) + "\n")


def _libraries(folder: Path) -> None:
    from toprope.runtime import library_path

    lib = folder / "lib64"
    machine = library_path()
    shutil.copy(machine, lib / "libtoprope_machine.so")
    with ThreadPoolExecutor(2) as pool:
        device, functions = pool.submit(_device_library, lib, machine), pool.submit(_operator_functions, folder)
        device.result()
        _linked(lib, "opapi", [str(functions.result())])
        empty = folder / "empty.c"
        empty.write_text("")
        list(pool.map(lambda name: _linked(lib, name, ["-x", "c", str(empty)]), ALIASES))
    empty.unlink()


def _device_library(lib: Path, machine: Path) -> None:
    absent = shared_library(RUNTIME / "absent.cpp", object_only=True)
    made = shared_library(
        RUNTIME / "ascendcl.cpp",
        include=(RUNTIME,),
        defines=("TOPROPE_NO_SITES=1",),
        extra=("-Wl,-soname,libascendcl.so", "-O1", "-Wl,-rpath,$ORIGIN"),
        link=(machine, absent),
    )
    shutil.copy(made, lib / "libascendcl.so")


def _operator_functions(folder: Path) -> Path:
    """libopapi and the headers of its functions. Without optimisation: it only hands its arguments on."""
    for name, text in header_texts().items():
        file = folder / "generated" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return shared_library(library_text(), extra=("-O0", "-fno-inline"), object_only=True)


def _linked(lib: Path, name: str, objects: Sequence[str]) -> None:
    """A library that needs libascendcl, of these objects."""
    compiled(
        [
            *compiler().command, *objects, "-shared", "-fPIC", f"-Wl,-soname,lib{name}.so", "-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined",
            f"-L{lib}", "-lascendcl", "-Wl,-rpath,$ORIGIN", "-o", str(lib / f"lib{name}.so"),
        ]
    )  # fmt: skip


def _command(file: Path, module: str) -> None:
    name, _, function = module.partition(":")
    root = str(HERE.parent.parent)
    call = f"import sys; sys.path.insert(0, {root!r}); from {name} import {function or 'main'} as main; sys.exit(main(sys.argv[1:]))"
    quoted = call.replace("'", "'\\''")
    file.write_text(f"#!/bin/sh\nexec '{sys.executable}' -P -c '{quoted}' \"$@\"\n")
    file.chmod(0o755)


def real_toolkit() -> str:
    """The vendor's toolkit that this environment or machine has; "" if none."""
    named = os.environ.get("ASCEND_HOME_PATH") or os.environ.get("ASCEND_TOOLKIT_HOME") or ""
    if named and not is_ours(Path(named)):
        return named
    for place in ("/usr/local/Ascend/ascend-toolkit/latest", "/usr/local/Ascend/cann"):
        if Path(place).is_dir():
            return place
    return ""

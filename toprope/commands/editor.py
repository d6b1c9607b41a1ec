"""toprope editor: files with which clangd and VS Code know kernels, host code and .asc files as this tool compiles them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toprope.build import host_folders
from toprope.commandline import Parser, document
from toprope.cpp import strip_comments
from toprope.errors import BadInput
from toprope.kernel import DEFAULT_SOC
from toprope.soc import load as load_soc
from toprope.source import entries
from toprope.toolkit.source import SOURCES, launch_header
from toprope.vendor_paths import stand_alone

MARK = "made by `toprope editor`"
_HOST = ("register/", "exe_graph/", "tiling/platform", "graph/operator")  # includes that only operators' host code has
_LEFT_OUT = {"build", "build_out", "node_modules", ".git", ".toprope", ".venv", "venv"}
# Clang reads <<<...>>> in CUDA mode only; there, every function that is not marked belongs to the host, unless this pragma is on.
_LAUNCHES = f"""// {MARK}: what clangd reads before a source with <<<...>>> launches.
#include <new>
#pragma clang force_cuda_host_device begin
int __cudaPushCallConfiguration(unsigned blocks, const void* l2ctrl = nullptr, const void* stream = nullptr);
#include "kernel_operator.h"
#undef __global__
#define __global__ __attribute__((global))
"""


def main(argv: list[str]) -> int:
    """Exit code 0 written, 2 bad input or a file of the user's in the way."""
    p = Parser(
        prog="toprope editor", description="Write the files with which clangd and VS Code know Ascend C sources."
    )
    p.add_argument(
        "folder", nargs="?", type=Path, default=Path(), help="the folder that the editor opens (default: here)"
    )
    p.add_argument("--soc", default=DEFAULT_SOC, help=f"chip (default {DEFAULT_SOC})")
    p.add_argument("--force", action="store_true", help="replace files that somebody else wrote")
    p.add_argument("--print", action="store_true", help="show the files instead of writing them")
    p.add_argument("--json", action="store_true", help="machine-readable output")
    options = p.parse_args(argv)
    if not options.folder.is_dir():
        raise BadInput(f"there is no folder {options.folder}", cure="name the folder that the editor opens")
    root = options.folder.resolve()
    files = contents(root, load_soc(options.soc).npu_arch)
    if options.print:
        print(
            document("editor", {"files": files})
            if options.json
            else "\n".join(f"--- {n}\n{t}" for n, t in files.items())
        )
        return 0
    foreign = [
        n for n, t in files.items() if (root / n).exists() and not _ours(root / n) and (root / n).read_text() != t
    ]
    if foreign and not options.force:
        raise BadInput(
            f"{', '.join(foreign)} in {options.folder} {'is' if len(foreign) == 1 else 'are'} not from this command: nothing was written",
            cure="--force replaces them; --print shows what would be in them",
        )
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    if options.json:
        print(document("editor", {"written": list(files)}))
    else:
        print("\n".join(f"wrote {options.folder / name}" for name in files))
        print("open the folder in an editor with clangd; in VS Code the tasks are below Terminal > Run Task")
    return 0


def _ours(file: Path) -> bool:
    text = file.read_text(errors="replace")
    return MARK in text or '"output": "toprope-editor"' in text


def contents(root: Path, npu_arch: int) -> dict[str, str]:
    """The files by their names below `root`. Raises BadInput for a folder without sources."""
    sources = sorted(
        f
        for f in root.rglob("*")
        if f.suffix in SOURCES and f.is_file() and not _LEFT_OUT & set(f.relative_to(root).parts)
    )
    if not sources:
        raise BadInput(f"{root} has no source ({', '.join(SOURCES)})", cure="name the folder of a kernel or a project")
    texts = {f: strip_comments(f.read_text(errors="replace")) for f in sources}
    files = {
        "compile_commands.json": json.dumps([_command(root, f, t, npu_arch) for f, t in texts.items()], indent=1) + "\n"
    }
    files[".toprope/editor/launches.h"] = _LAUNCHES
    launched = "".join(texts.values())
    for source, text in texts.items():
        if "__global__" in text and "aclrtlaunch_" in launched:
            for entry in entries(source):
                files[f".toprope/editor/aclrtlaunch_{entry.name}.h"] = f"// {MARK}\n" + launch_header(entry)
    plain = ", ".join(f'"{flag}"' for flag in _flags(root, npu_arch))
    files[".clangd"] = (
        f"# {MARK}: for headers and other files that compile_commands.json does not name\nCompileFlags:\n  Add: [{plain}]\nDiagnostics:\n  UnusedIncludes: None\n"
    )
    files[".vscode/settings.json"] = (
        f"// {MARK}\n" + json.dumps({"files.associations": {"*.asc": "cpp", "*.cce": "cpp"}}, indent=1) + "\n"
    )
    files[".vscode/tasks.json"] = f"// {MARK}\n" + json.dumps({"version": "2.0.0", "tasks": _tasks()}, indent=1) + "\n"
    return files


def _flags(root: Path, npu_arch: int) -> list[str]:
    device = [f"-D__NPU_ARCH__={npu_arch}", "-DTOPROPE_AIV=1", "-DTOPROPE_HOST_PROGRAM=1"]
    folders = [stand_alone(), root / ".toprope" / "editor"]
    return ["-std=c++17", "-fsigned-char", *device, *(f"-I{f}" for f in folders)]


def _command(root: Path, source: Path, text: str, npu_arch: int) -> dict[str, Any]:
    if any(f'include "{name}' in text or f"include <{name}" in text for name in _HOST):
        words = ["-std=c++17", "-fpermissive", "-DTOPROPE_HOST=1", *(f"-I{f}" for f in host_folders())]
    else:
        words = _flags(root, npu_arch)
        if "<<<" in text:
            before = str(root / ".toprope" / "editor" / "launches.h")
            variadic = ["-Xclang", "-fcuda-allow-variadic-functions"]
            words = ["-xcuda", "--cuda-host-only", "-nocudainc", "-nocudalib", *variadic, *words, "-include", before]
        elif source.suffix not in (".cpp", ".cc"):
            words = ["-xc++", *words]
    around = [
        f"-I{f}" for f in (source.parent, root, *(p for p in (source.parent.parent / "op_kernel",) if p.is_dir()))
    ]
    file = str(source)
    return {
        "directory": str(root),
        "file": file,
        "arguments": ["clang++", *words, *around, file],
        "output": "toprope-editor",
    }


def _tasks() -> list[dict[str, Any]]:
    line = {
        "regexp": r"^(.*?):(\d+):(\d+): (error|warning|note): (.*)$",
        "file": 1,
        "line": 2,
        "column": 3,
        "severity": 4,
        "message": 5,
    }
    matcher = {"owner": "toprope", "fileLocation": ["autoDetect", "${workspaceFolder}"], "pattern": line}
    words = {"check": ["--format", "gcc"], "run": [], "profile": ["--html", "${workspaceFolder}/profile.html"]}
    return [
        {
            "label": f"toprope {verb} (this file)",
            "type": "process",
            "command": "toprope",
            "args": [verb, "${file}", *more],
            "problemMatcher": matcher if verb == "check" else [],
            **({"group": {"kind": "test", "isDefault": True}} if verb == "check" else {}),
        }
        for verb, more in words.items()
    ]

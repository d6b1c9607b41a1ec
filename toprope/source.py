"""Reading a kernel source: its entries, their arguments, and what the vendor's build would learn from a precompile scan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from toprope.commandline import nearest
from toprope.cpp import read, strip_comments
from toprope.errors import BadKernel

_TASK = re.compile(r"KERNEL_TASK_TYPE_DEFAULT\s*\(\s*(?:AscendC::)?(KERNEL_TYPE_\w+)\s*\)")
_TASK_BY_KEY = re.compile(r"KERNEL_TASK_TYPE\s*\(\s*(\w+)\s*,\s*(?:AscendC::)?(\w+)\s*\)")
_CUBE = re.compile(r"\b(Mmad|LoadData|LoadDataWithTranspose|Fixpipe|REGIST_MATMUL_OBJ|MatmulImpl|matmul_intf)\b")
_OBJECT = re.compile(r"\bREGIST_MATMUL_OBJ\b")
_VECTOR = re.compile(r"\b(VECIN|VECOUT|VECCALC)\b")
_CUBE_ONLY = re.compile(r"^\s*#\s*define\s+ASCENDC_CUBE_ONLY\b", re.M)

# Task type -> (AIC cores, AIV cores) per block; coupled chips run one core per block whatever is asked.
TASK_TYPES = {
    "KERNEL_TYPE_AIV_ONLY": (0, 1),
    "KERNEL_TYPE_AIC_ONLY": (1, 0),
    "KERNEL_TYPE_MIX_AIV_1_0": (0, 1),
    "KERNEL_TYPE_MIX_AIC_1_0": (1, 0),
    "KERNEL_TYPE_MIX_AIC_1_1": (1, 1),
    "KERNEL_TYPE_MIX_AIC_1_2": (1, 2),
    "KERNEL_TYPE_AICORE": (0, 1),
    "KERNEL_TYPE_VECTORCORE": (0, 1),
    "KERNEL_TYPE_MIX_AICORE": (0, 1),
    "KERNEL_TYPE_MIX_VECTOR_CORE": (0, 1),
}


@dataclass(frozen=True)
class Parameter:
    """An argument of a kernel: C++ type, name, and whether it is a GM pointer."""

    name: str
    type: str

    @property
    def is_pointer(self) -> bool:
        """A GM address (array) rather than a value."""
        return self.type == "GM_ADDR" or self.type.endswith("*")

    @property
    def element(self) -> str:
        """Element type that the signature names ("half"), or "" for GM_ADDR and byte pointers."""
        bare = self.type.replace("*", "").replace("const", "").replace("__gm__", "").strip()
        return "" if bare in {"GM_ADDR", "uint8_t", "void"} else bare


@dataclass(frozen=True)
class Entry:
    """A kernel function: name, arguments, template parameters (text, "" if none), line, and cores per block."""

    name: str
    parameters: tuple[Parameter, ...]
    template: str
    line: int
    task_type: str
    task_type_by_key: tuple[tuple[str, str], ...] = ()

    @property
    def signature(self) -> str:
        """As a person writes it: add_custom(GM_ADDR x, GM_ADDR y, GM_ADDR z)."""
        return f"{self.name}({', '.join(f'{p.type} {p.name}' for p in self.parameters)})"


def local_files(path: Path) -> Iterator[tuple[Path, str]]:
    """The source and every quoted include that exists beside it, each once, comments removed."""
    queue, seen = [path.resolve()], set()
    while queue:
        file = queue.pop(0)
        if file in seen or not file.exists():
            continue
        seen.add(file)
        text = strip_comments(file.read_text(errors="replace"))
        yield file, text
        queue += [(file.parent / name).resolve() for name in read(text).includes]


def entries(path: Path) -> list[Entry]:
    """The kernel functions of a source file. Raises BadKernel if the file is missing or holds none."""
    if not path.is_file():
        beside = [f.name for f in path.parent.glob("*") if f.suffix in (".cpp", ".asc", ".cce")]
        meant = next((f", did you mean {str(path.parent / n)!r}?" for n in beside if Path(n).stem == path.name), "")
        raise BadKernel(
            f"there is no file {path}{meant or nearest(path.name, beside)}",
            cure="check the path and the current folder; toprope takes one C++ source with a __global__ function",
        )
    files = list(local_files(path))
    by_key = tuple(_TASK_BY_KEY.findall("\n".join(text for _, text in files)))
    text = files[0][1]
    kernels = [(f, f.body) for f in read(text).kernels if f.body is not None]
    found = []
    for f, body in kernels:
        parameters = tuple(Parameter(p.name, p.type) for p in f.parameters)
        # What another entry's body says is about that entry; all else may be code that this one calls.
        others = [(text.index(b, g.at), len(b)) for g, b in kernels if g is not f]
        own = "\n".join([_without(text, others), *(text for _, text in files[1:])])
        task = _task_type(f.marks, own, _TASK.search(body))
        found.append(Entry(f.name, parameters, f.template, f.line, task, by_key))
    if not found:
        raise BadKernel(
            f"{path.name} has no kernel entry",
            cure='a kernel is a function like: extern "C" __global__ __aicore__ void add_custom(GM_ADDR x, ...) { ... }',
        )
    return found


def _without(text: str, ranges: Sequence[tuple[int, int]]) -> str:
    """The text without some ranges of it, given in order by where they begin and how long they are."""
    kept, at = [], 0
    for begin, length in ranges:
        kept.append(text[at:begin])
        at = begin + length
    return "".join([*kept, text[at:]])


def _task_type(marks: str, whole: str, said: re.Match[str] | None) -> str:
    """The task type as the vendor's compiler finds it: the macro (`said`: the one in the entry's own body), the function's own mark, or
    inferred from what is used."""
    if found := said or _TASK.search(whole):
        if found.group(1) not in TASK_TYPES:
            raise BadKernel(f"unknown task type {found.group(1)}", cure="use one of " + ", ".join(TASK_TYPES))
        return found.group(1)
    if "__vector__" in marks:
        return "KERNEL_TYPE_AIV_ONLY"
    if "__cube__" in marks:
        return "KERNEL_TYPE_AIC_ONLY"
    if mix := re.search(r"__mix__\s*\(\s*1\s*,\s*(\d)\s*\)", marks):
        return f"KERNEL_TYPE_MIX_AIC_1_{mix.group(1)}"
    if not _CUBE.search(whole):
        return "KERNEL_TYPE_AIV_ONLY"
    # A Matmul object is asked by the vector cores unless the source keeps it to the cube core.
    both = (_VECTOR.search(whole) or _OBJECT.search(whole)) and not _CUBE_ONLY.search(whole)
    return "KERNEL_TYPE_MIX_AIC_1_2" if both else "KERNEL_TYPE_AIC_ONLY"

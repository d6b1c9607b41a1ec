"""Finding the operators of a checkout: folders with op_kernel/ and, beside it, op_host/ and tests/."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from toprope.cpp import read, strip_comments
from toprope.errors import BadInput
from toprope.project.definition import Definition, builds_for, read_definition

# Folders and names that hold code of other generations only.
_OTHER_GENERATION = re.compile(r"arch(?!22\b)\d\d|_apt\b|_apt\.|regbase|_950\b")
_ENTRY = re.compile(r"\b__global__\b(?!\s+__aicpu__)")  # kernels of the AI CPU are none of ours


@dataclass(frozen=True)
class Operator:
    """One operator folder of a checkout."""

    folder: Path
    root: Path

    @property
    def name(self) -> str:
        """The folder's name, which is the operator's in snake case."""
        return self.folder.name

    @property
    def label(self) -> str:
        """The folder relative to the checkout."""
        return self.folder.relative_to(self.root).as_posix() if self.folder != self.root else self.name

    @property
    def kernel_folder(self) -> Path:
        """Where the kernel sources are."""
        return self.folder / "op_kernel"

    @property
    def test_folder(self) -> Path:
        """Where the kernel's unit test is, if it has one."""
        return self.folder / "tests" / "ut" / "op_kernel"

    @cached_property
    def definition_files(self) -> list[Path]:
        """Files of op_host that may define the operator."""
        host = self.folder / "op_host"
        return sorted(host.glob("*_def.cpp")) + [f for f in sorted(host.glob("*.cpp")) if not f.stem.endswith("_def")]

    def definition(self, chip: str) -> Definition | None:
        """What op_host declares for a chip; None if nothing readable is there."""
        return _definition(self, chip)

    def _read(self, chip: str) -> Definition | None:
        for file in self.definition_files:
            if "OpDef" in file.read_text(errors="replace") and (found := read_definition(file, chip)):
                return found
        return None

    def kernels(self, chip: str) -> list[Path]:
        """The kernel sources that the vendor's build would compile for a chip; empty if the operator is not built for it."""
        definition = self.definition(chip)
        if definition is not None and definition.families:
            families = [f for f in definition.families if builds_for(f, chip)]
            if not families:
                return []
            if named := next((definition.kernel_files[f] for f in families if f in definition.kernel_files), None):
                found = sorted(self.kernel_folder.rglob(f"{named}.cpp"))
                return sorted(found, key=lambda f: bool(_OTHER_GENERATION.search(_inside(f, self.kernel_folder))))[:1]
        own = self.kernel_folder / f"{self.name}.cpp"
        if own.is_file() and _belongs(own):
            return [own]
        candidates = [
            f
            for f in sorted(self.kernel_folder.rglob("*.cpp"))
            if not _OTHER_GENERATION.search(_inside(f, self.kernel_folder))
        ]
        return [f for f in candidates if _belongs(f)]


@cache
def _definition(operator: Operator, chip: str) -> Definition | None:
    return operator._read(chip)


def find_operators(root: Path) -> list[Operator]:
    """Every operator below a folder, in order of their paths. Raises BadInput if there is none."""
    if not root.is_dir():
        raise BadInput(f"there is no folder {root}", cure="give the checkout of an operator repository")
    found = []
    for folder, folders, _ in os.walk(root):
        if "op_kernel" in folders:
            found.append(Operator(Path(folder), root))
        folders[:] = sorted(f for f in folders if f not in ("op_kernel", "tests", "build", "template", ".git"))
    if not found:
        raise BadInput(
            f"{root} holds no operator: no folder op_kernel was found below it",
            cure="an operator is a folder with op_kernel/ and, beside it, op_host/",
        )
    return sorted(found, key=lambda o: o.label)


def _inside(file: Path, folder: Path) -> str:
    return file.relative_to(folder).as_posix()


def _belongs(file: Path) -> bool:
    """Whether a source holds a kernel entry of this generation."""
    text = strip_comments(file.read_text(errors="replace"))
    if not _ENTRY.search(text):
        return False
    own = [i for i in read(text).includes if "arch35" in i or "_apt" in i or i.startswith(("atvoss/", "simt_api/"))]
    # A file whose every own include is of another generation has no code of this one, unless it chooses by macro.
    return not own or "__CCE_AICORE__" in text or "__NPU_ARCH__" in text or "__DAV" in text

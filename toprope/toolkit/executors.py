"""Which executor answers an aclnn call: the one place of the rule, and why the better ones did not.

In order: (a) an operator of the user's, (b) one of the library, (c) a kernel that the tile language makes of a one-line definition, (d) the
reference. (b) and (c) execute every instruction here, so a call of more work than `ENGINE_ELEMENTS` (or a product of more than
`ENGINE_PRODUCTS` multiplications) goes to the reference; so does one whose kernel would have to be compiled when a program has spent its
`compile_limit_s` on that. A report says so of each.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from toprope import ops
from toprope.cache import cache_dir
from toprope.errors import BadInput, TopropeError
from toprope.kernel import cores_of
from toprope.project.loaded import ProjectOperator
from toprope.soc import Soc
from toprope.toolkit.calls import Call, NotServed
from toprope.toolkit.choices import CHOICES
from toprope.toolkit.definitions import COMPARED, ELEMENTS, FOREACH, REDUCED, ROWS
from toprope.toolkit.generated import OTHERS, Generated, Launch, generated, launch_of
from toprope.toolkit.library_calls import LIBRARY as LIBRARY_CALLS
from toprope.toolkit.library_calls import LibraryCall, library_call
from toprope.toolkit.operator_library import table

ENGINE_ELEMENTS, ENGINE_PRODUCTS = 1 << 22, 1 << 31


@dataclass
class Executors:
    """The choice for the calls of one program."""

    soc: Soc
    allowed: str = ""
    compile_limit_s: float = 0.0
    spent_s: float = 0.0
    why: dict[str, str] = field(default_factory=dict)  # function -> why a reference answered it, the last reason
    _operators: dict[str, ProjectOperator] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.allowed = self.allowed or os.environ.get("TOPROPE_EXECUTORS", "all")
        if self.allowed not in CHOICES:
            raise BadInput(f"TOPROPE_EXECUTORS is {self.allowed!r}", cure=f"one of {', '.join(CHOICES)}")
        self.compile_limit_s = self.compile_limit_s or float(os.environ.get("TOPROPE_COMPILE_LIMIT_S", "120"))

    def library(self, call: Call) -> tuple[LibraryCall, ProjectOperator] | None:
        """The operator of the library that answers a call; None where a later executor has to."""
        if self.allowed == "reference":
            self._not(call, "TOPROPE_EXECUTORS=reference")
            return None
        try:
            made = library_call(call)
            limit = ENGINE_PRODUCTS if made.operator in ("matmul", "conv2d") else ENGINE_ELEMENTS
            if made.work > limit:
                raise NotServed(f"too large to execute here ({made.work:,} steps)")
        except NotServed as reason:
            self._not(call, str(reason))
            return None
        if made.operator not in self._operators:
            self._operators[made.operator] = ops.operator(made.operator)
        return made, self._operators[made.operator]

    def generated(self, call: Call) -> list[tuple[Generated, Launch]] | None:
        """The kernels that the tile language makes for a call; None where the reference has to answer it."""
        if self.allowed != "all":
            self._not(call, f"TOPROPE_EXECUTORS={self.allowed}")
            return None
        if not self.soc.split:
            self._not(call, "kernels are generated for chips with separate cube and vector cores")
            return None
        try:
            made = generated(call)
            for each in made:
                if not all(each.dims.values()):
                    raise NotServed("an empty tensor")
                product = {"M", "N", "K"} == set(each.dims)
                work = math.prod(each.dims.values())
                if work > (ENGINE_PRODUCTS if product else ENGINE_ELEMENTS):
                    raise NotServed(f"too large to execute here ({work:,} steps)")
            return [(each, launch_of(each, self.soc)) for each in made]
        except NotServed as reason:
            self._not(call, str(reason))
        except Exception as error:  # a mistake of ours is told with the reasons, and the call still has its answer
            self._not(call, f"mistake of toprope's: {type(error).__name__}: {error}")
        return None

    def compiled(self, call: Call, build: Callable[[], Any], key: str) -> Any:
        """What `build` compiles, counted against the limit unless it was compiled before. None: the limit is reached, or it does not compile."""
        mark = cache_dir() / "generated" / f"built-{key}"
        if not mark.exists() and self.spent_s > self.compile_limit_s:
            self._not(
                call,
                f"its kernel is not compiled yet, and {self.compile_limit_s:g} s of compiling are spent (TOPROPE_COMPILE_LIMIT_S)",
            )
            return None
        begin = time.monotonic()
        try:
            built = build()
        except TopropeError as error:
            self._not(call, error.message.splitlines()[0])
            return None
        if not mark.exists():
            self.spent_s += time.monotonic() - begin
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
        return built

    def _not(self, call: Call, reason: str) -> None:
        known = self.why.get(call.function, "")
        if not known or known.startswith(("no operator", "no definition")):
            self.why[call.function] = reason


def cores_and_paths(
    kernel: Any, blocks: int, soc: Soc, key: int, build: Callable[[Any, str], Any]
) -> tuple[list[str], list[int]]:
    """Paths of the compiled kernel for vector, cube and coupled cores ("-": not used), and how many cube and vector cores a block has."""
    cores = cores_of(kernel, 1, soc, key)[0]
    types = {c.type for c in cores}
    return [str(build(soc, t)) if t in types else "-" for t in ("aiv", "aic", "coupled")], [
        sum(c.type == t for c in cores) for t in ("aic", "aiv")
    ]


def with_kernels() -> list[str]:
    """The functions that a kernel of the library or one of the tile language can answer, for some types and shapes."""
    elements = {f"{way}{name}" for name in (*ELEMENTS, *COMPARED, "GeluV2") for way in ("", "Inplace")}
    others = {*(f"Foreach{name}" for name in FOREACH), *REDUCED, *ROWS, *OTHERS, *LIBRARY_CALLS}
    return sorted(f"aclnn{name}" for name in elements | others if f"aclnn{name}" in table() and name != "InplaceAddV3")

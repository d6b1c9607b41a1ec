"""The passes one after the other: a form to a placed, ordered and printed kernel."""

from __future__ import annotations

from dataclasses import dataclass

from toprope.soc import Soc
from toprope.tile.form.nodes import Form
from toprope.tile.form.verify import verify
from toprope.tile.language import TileTooLarge
from toprope.tile.passes.arena import place, used
from toprope.tile.passes.instructions import Program
from toprope.tile.passes.lower import lowered
from toprope.tile.passes.order import ordered
from toprope.tile.text.kernel import kernel_text

STAGE_BYTES = 256  # through which single elements leave


@dataclass(frozen=True)
class Emitted:
    """A kernel that was placed; its text is printed when it is asked for."""

    form: Form
    program: Program
    arena_bytes: int
    room_bytes: int

    @property
    def fixed_bytes(self) -> int:
        """What is filled before the first step."""
        return sum(b.bytes for b, _ in self.program.fixed)

    @property
    def bytes(self) -> int:
        """Of the unified buffer."""
        return self.arena_bytes + self.room_bytes + self.fixed_bytes + STAGE_BYTES

    @property
    def mixed(self) -> bool:
        """Whether the cube works too."""
        return bool(self.program.products)

    def over(self, chip: Soc) -> str:
        """What does not fit, or nothing."""
        capacity = int(chip.number("spaces.ub_bytes"))
        return f"ub needs {self.bytes} of {capacity}" if self.bytes > capacity else ""

    def ledger(self, chip: Soc) -> str:
        """The bytes of every buffer."""
        capacity = int(chip.number("spaces.ub_bytes"))
        rows = [
            ("arena", "values by liveness", self.arena_bytes),
            ("room", "of single instructions", self.room_bytes),
            ("stage", "of single elements", STAGE_BYTES),
        ]
        rows += [(b.name, "made once", b.bytes) for b, _ in self.program.fixed]
        lines = [f"{self.form.name}: unified buffer of {capacity} bytes"]
        lines += [
            f"  {n:<10}{what:<26}{size:>8}  {'#' * max(1, round(size * 40 / capacity))}"
            for n, what, size in rows
            if size
        ]
        lines.append(f"  {'total':<36}{self.bytes:>8}  {100 * self.bytes / capacity:.0f} %")
        lines += [
            f"    {b.name:<12}line {b.line:<5}{b.dtype.name:<10}arena+{b.offset:<10}{b.bytes}"
            for b in used(self.program)
        ]
        return "\n".join(lines)

    def text(self, *, line_directives: bool = False, tiling_struct: str = "") -> str:
        """The source file."""
        return kernel_text(
            self.form,
            self.program,
            self.arena_bytes,
            self.room_bytes,
            STAGE_BYTES,
            line_directives=line_directives,
            tiling_struct=tiling_struct,
        )


def emitted(form: Form, chip: Soc | None = None, *, check: bool = True) -> Emitted:
    """Lower, place and order a form. Raises TileTooLarge with the ledger when it does not fit the chip."""
    if check:
        verify(form)
    work = lowered(form)
    size = place(work.program)
    ordered(work.program)
    found = Emitted(form, work.program, size, -(-work.room_bytes // 256) * 256)
    if chip is not None and (over := found.over(chip)):
        raise TileTooLarge(
            f"{form.name} does not fit {chip.name}: {over}\n{found.ledger(chip)}", cure="use smaller blocks"
        )
    return found

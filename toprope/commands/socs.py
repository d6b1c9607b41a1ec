"""toprope socs: the chips, side by side, with the source of each number."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from toprope import soc
from toprope.commandline import Parser, document


def main(argv: list[str]) -> int:
    """List the chips, show some side by side, or one with its sources."""
    p = Parser(prog="toprope socs", description="The chips; '?' marks an assumed number.")
    p.add_argument("names", nargs="*", help="chips to show; one alone is shown with kinds and sources")
    p.add_argument("--json", action="store_true", help="machine-readable output")
    options = p.parse_args(argv)
    chips = [soc.load(n) for n in options.names]
    if options.json:
        shown = chips or [soc.load(n) for n in soc.names()]
        print(document("socs", {"chips": {c.name: {path: c.number(path) for path in c.numbers()} for c in shown}}))
        return 0
    out = Console(highlight=False, soft_wrap=True)
    if not chips:
        for name in soc.names():
            chip = soc.load(name)
            out.print(f"{name:<20} {chip.table['arch']:<10} {chip.table.get('title', '')}")
        return 0
    if len(chips) == 1:
        chip = chips[0]
        for path in chip.numbers():
            value = soc.shown(chip.number(path))
            out.print(f"{path:<44} {value:>16}  {chip.kind_of(path):<10} {chip.source_of(path)}", markup=False)
        return 0
    header, *rows = soc.compare(options.names)
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for i, column in enumerate(header):
        table.add_column(column, justify="left" if i == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, width=44 + 20 * len(chips)).print(table)
    return 0

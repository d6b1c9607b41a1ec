"""toprope api: the Ascend C functions implemented here."""

from __future__ import annotations

import difflib
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from toprope import api
from toprope.commandline import Parser, document
from toprope.errors import BadInput


def main(argv: list[str]) -> int:
    """List functions, explain one, or count the names of a table that are implemented."""
    p = Parser(prog="toprope api", description="The Ascend C functions implemented here, read from the headers.")
    p.add_argument("name", nargs="?", help="explain one function")
    p.add_argument(
        "--coverage", type=Path, metavar="FILE", help="count the names in the first column of a tab-separated table"
    )
    p.add_argument("--json", action="store_true", help="machine-readable output")
    options = p.parse_args(argv)
    if options.coverage:
        return _coverage(options.coverage, options.json)
    functions = api.functions()
    if options.name:
        if options.name not in functions:
            near = difflib.get_close_matches(options.name, functions, 5)
            reason = api.not_yet().get(options.name)
            raise BadInput(
                f"{options.name} is not implemented" + (f": {reason}" if reason else ""),
                cure="near names: " + ", ".join(near) if near else "`toprope api` lists what is",
            )
        functions = {options.name: functions[options.name]}
    if options.json:
        print(document("api", {"functions": [asdict(f) for f in functions.values()]}))
        return 0
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for column in ("function", "meaning", "element types", "chips", "header"):
        table.add_column(column, overflow="fold")
    for f in sorted(functions.values(), key=lambda f: (f.header, f.name)):
        table.add_row(f.name, f.meaning, f.dtypes, f.chips, f.header)
    Console(highlight=False, width=None if len(functions) == 1 else 160).print(table)
    print(f"{len(functions)} function{'s' if len(functions) > 1 else ''}")
    return 0


def _coverage(listing: Path, as_json: bool) -> int:
    have, missing = api.coverage(listing)
    reasons = {name: api.reason_missing(name) for name in missing}
    if as_json:
        print(document("api-coverage", {"implemented": have, "missing": reasons}))
        return 0
    elsewhere = [name for name, why in reasons.items() if "950" in why or "themselves" in why]
    here = len(have) + len(missing) - len(elsewhere)
    print(f"{len(have)} of {here} names of {listing.name} that this generation has are declared")
    print(f"{len(elsewhere)} more belong to other chips or to the kernels themselves")
    for name, why in reasons.items():
        print(f"  {'not here' if name in elsewhere else 'missing'}: {name}" + (f" ({why})" if why else ""))
    return 0

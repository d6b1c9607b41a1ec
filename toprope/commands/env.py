"""toprope env: the shell lines that put the toolkit into an environment."""

from __future__ import annotations

import json
import sys

from toprope.commandline import Parser
from toprope.toolkit.prefix import prefix, real_toolkit, shell_lines


def main(argv: list[str]) -> int:
    """Exit code 0, or 2 if a toolkit of the vendor is there and --over-real was not given."""
    p = Parser(
        prog="toprope env",
        description='Print the environment of the toolkit, built on first use: eval "$(toprope env)"',
    )
    p.add_argument("--json", action="store_true", help="as JSON, with the folder")
    p.add_argument("--over-real", action="store_true", help="also where a toolkit of the vendor is set up")
    options = p.parse_args(argv)
    if (named := real_toolkit()) and not options.over_real:
        print(
            f"toprope: a toolkit is there already: {named}\ncure: toprope env --over-real puts this one before it",
            file=sys.stderr,
        )
        print("false")
        return 2
    place = prefix()
    if options.json:
        print(
            json.dumps(
                {"prefix": str(place), "variables": dict(line.split("=", 1) for line in shell_lines(place))}, indent=1
            )
        )
        return 0
    for line in shell_lines(place):
        print(f"export {line}")
    return 0

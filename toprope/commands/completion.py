"""toprope completion: words for the shell, from the same parsers that read the command line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from argcomplete import autocomplete
from argcomplete.lexers import split_line
from argcomplete.shell_integration import shellcode

from toprope import soc
from toprope.commandline import Parser

SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")


def main(argv: list[str]) -> int:
    """Print what the shell has to read. Exit code 0, 2 bad input."""
    p = Parser(
        prog="toprope completion",
        description="Print a script that makes the shell complete verbs, options, chips and cases.",
        epilog='for this session: eval "$(toprope completion bash)"; for all: write that line into ~/.bashrc (zsh: ~/.zshrc; fish: toprope completion fish | source)',
    )
    p.add_argument("shell", nargs="?", choices=SHELLS, default=_own_shell(), help="which shell (default: yours)")
    print(shellcode(["toprope"], shell=p.parse_args(argv).shell))
    return 0


def _own_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    return name if name in SHELLS else "bash"


def complete(verbs: Mapping[str, str]) -> None:
    """Answer the shell's question in COMP_LINE, and end. `verbs` are modules by verb; nothing but a parser is run."""
    line, point = os.environ.get("COMP_LINE", ""), int(os.environ.get("COMP_POINT", "0"))
    words = split_line(line, point)[3][1:]
    if not words or words[0] not in verbs:
        p = argparse.ArgumentParser()
        p.add_argument("verb", choices=list(verbs))
        autocomplete(p)
    os.environ["_ARGCOMPLETE"] = "2"  # words before the ones that the verb's parser reads: toprope and the verb

    parsers = ("parse_args", "parse_intermixed_args", "parse_known_args")
    real = {method: getattr(argparse.ArgumentParser, method) for method in parsers}

    def instead(self: argparse.ArgumentParser, *_: Any) -> None:
        for method in parsers:
            setattr(argparse.ArgumentParser, method, real[method])
        for action in self._actions:
            if action.dest in _VALUES and not action.choices:
                action.completer = _VALUES[action.dest]  # type: ignore[attr-defined]  # where argcomplete looks for it
        autocomplete(self)

    for method in parsers:
        setattr(argparse.ArgumentParser, method, instead)
    import_module(verbs[words[0]]).main(["--help"])
    sys.exit(0)


def _chips(**_: Any) -> list[str]:
    return soc.names()


def _cases(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    from toprope.testing.readers import find_suites  # only this question needs the readers

    path = Path(str(getattr(parsed_args, "kernel", "")).partition(":")[0])
    return [c.name for s in find_suites(path) for c in s.cases] if path.exists() else []


_VALUES: dict[str, Callable[..., list[str]]] = {"soc": _chips, "case": _cases}

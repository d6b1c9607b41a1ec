"""--watch: the same command again whenever a source, launch file or case file is saved."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from toprope.commandline import BadOption
from toprope.language import say

WATCHED = ("run", "check", "profile", "deps", "bisect-precision", "test")
"""The verbs that have --watch."""
# What people write; not what a run may write (.npy, .bin, .json), which would start it again.
_ENDINGS = (".cpp", ".h", ".hpp", ".asc", ".cce", ".toml", ".py", ".csv")


def again(program: list[str], verb: str, words: list[str]) -> int:
    """Run `program` with the verb until Ctrl-C, each time in a process of its own; the last run's exit code. Raises BadOption."""
    try:
        from watchfiles import DefaultFilter, watch  # an optional extra that only this needs
    except ModuleNotFoundError:
        raise BadOption("--watch needs the package watchfiles", cure="pip install 'toprope[watch]'") from None
    if verb not in WATCHED:
        raise BadOption(f"toprope {verb} has no --watch", cure="it is there for " + ", ".join(WATCHED))
    named = [Path(w.partition(":")[0]) for w in words if not w.startswith("-")]
    folders = {p if p.is_dir() else p.parent for p in named if p.exists() and p.name}
    if not folders:
        raise BadOption("--watch: nothing here is a file or a folder", cure="name a source, a project or a case file")

    class Sources(DefaultFilter):
        def __call__(self, change: object, path: str) -> bool:
            return path.endswith(_ENDINGS) and super().__call__(change, path)  # type: ignore[arg-type]

    command = [*program, verb, *(w for w in words if w != "--watch")]
    code = 130
    try:
        code = _once(command)
        for changes in watch(*folders, watch_filter=Sources(), raise_interrupt=True):
            names = ", ".join(sorted({Path(p).name for _, p in changes}))
            print(f"\n--- {names} ---", file=sys.stderr, flush=True)
            code = _once(command)
    except KeyboardInterrupt:
        print(file=sys.stderr)
    return code


def _once(command: list[str]) -> int:
    done = subprocess.run(command, check=False)
    print(say("waiting for a change (Ctrl-C ends)"), file=sys.stderr, flush=True)
    return done.returncode

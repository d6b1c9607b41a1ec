"""The command line: a table of verbs. Each verb is a module in toprope/commands, loaded only when it is called."""

from __future__ import annotations

import sys
from importlib import import_module

from toprope.language import say, translate_help

# verb -> (module with main(argv) -> exit code, what it does)
VERBS = {
    "run": ("toprope.commands.run", "compile and run a kernel on all blocks, compare, check, time"),
    "check": ("toprope.commands.check", "findings only; exit code 1 if there is an error"),
    "profile": ("toprope.commands.profile", "where the time goes; --html, --flame, --trace, --csv"),
    "explore": ("toprope.commands.explore", "look around in a run, in the terminal"),
    "bisect-precision": (
        "toprope.commands.bisect_precision",
        "beside a float64 shadow: the line where error is born, its cause, the change",
    ),
    "compare": ("toprope.commands.compare", "two reports side by side: what changed and where"),
    "deps": (
        "toprope.commands.deps",
        "what depends on what, and which synchronisation orders nothing; --format dot, html",
    ),
    "api": ("toprope.commands.api", "the Ascend C functions implemented here; --coverage FILE counts"),
    "socs": ("toprope.commands.socs", "the chips, side by side, with the source of each number"),
    "calibrate": ("toprope.commands.calibrate", "correct a chip from what msprof measured on yours"),
    "doctor": ("toprope.commands.doctor", "what is on this machine, what is missing, how to fix it"),
    "env": ("toprope.commands.env", 'the toolkit\'s environment: eval "$(toprope env)", then cmake, make, ./demo'),
    "exec": ("toprope.commands.exec", "run a command with the toolkit; every program in it is checked and timed"),
    "include": ("toprope.commands.include", "the folder to give to g++ -I"),
    "compat": ("toprope.commands.compat", "compile every kernel of an operator repository and say what is missing"),
    "new": ("toprope.commands.new", "write an operator project from a JSON prototype, a signature or a tile function"),
    "test": ("toprope.testing.runner", "run an operator's test cases"),
    "serve": ("toprope.serve.http.server", "an OpenAI-compatible server with a paged KV cache, on CPU"),
    "plan-serve": ("toprope.serve.planning.planner", "choose batch limits for a model, a chip and a traffic"),
    "plan-train": ("toprope.commands.plan_train", "which layout trains a model on a cluster: memory, step, why"),
}


def main(argv: list[str] | None = None) -> int:
    """Run one verb. Exit codes: 0 good, 1 findings or a failed comparison, 2 bad input, 3 the kernel crashed or hung."""
    translate_help()
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if arguments[0] in ("-V", "--version"):
        from importlib.metadata import version  # loaded here: it is slow and rarely asked for

        print(f"toprope {version('toprope')}")
        return 0
    verb, rest = arguments[0], arguments[1:]
    if verb not in VERBS:
        print(f"{say('toprope has no verb {verb}').format(verb=repr(verb))}\n\n{usage()}", file=sys.stderr)
        return 2
    from toprope.errors import TopropeError  # light; kept here so that --help touches nothing else

    try:
        return int(import_module(VERBS[verb][0]).main(rest))
    except TopropeError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(say("interrupted"), file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0


def usage() -> str:
    """The first screen."""
    width = max(map(len, VERBS))
    rows = "\n".join(f"  {verb:<{width}}  {say(what)}" for verb, (_, what) in VERBS.items())
    title = "toprope: a software Ascend NPU. Runs Ascend C kernels on this computer, finds their mistakes, tells their time."
    first = say("start here:")
    return (
        f"{say(title)}\n\n{rows}\n\n"
        f"{first}  toprope run kernel.cpp         {say('lists its entries and a complete command')}\n"
        f"{'':<{len(first)}}  toprope VERB --help            {say('the options of one verb')}"
    )


if __name__ == "__main__":
    sys.exit(main())

"""The command line: a table of verbs. Each verb is a module in toprope/commands, loaded only when it is called."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import toprope
from toprope.commandline import BadOption, flush, form_of, guarded, nearest, prepare_process, version
from toprope.language import say, translate_help

# verb -> (module with main(argv) -> exit code, what it does)
VERBS = {
    "run": ("toprope.commands.run", "compile and run a kernel on all blocks, compare, check, time"),
    "check": ("toprope.commands.check", "findings only; exit code 1 if there is an error"),
    "profile": ("toprope.commands.profile", "where the time goes; --html, --flame, --trace, --csv"),
    "explore": ("toprope.commands.explore", "look around in a run, in the terminal"),
    "debug": ("toprope.commands.debug", "step through a kernel in gdb, with its lines and variables"),
    "bisect-precision": (
        "toprope.commands.bisect_precision",
        "beside a float64 shadow: the line where error is born, its cause, the change",
    ),
    "compare": ("toprope.commands.compare", "two reports side by side: what changed and where"),
    "deps": (
        "toprope.commands.deps",
        "what depends on what, and which synchronisation orders nothing; --format dot, html",
    ),
    "tune": ("toprope.commands.tune", "the fastest tile sizes of a kernel, found by prediction and verified"),
    "api": ("toprope.commands.api", "the Ascend C functions implemented here; --coverage FILE counts"),
    "socs": ("toprope.commands.socs", "the chips, side by side, with the source of each number"),
    "calibrate": ("toprope.commands.calibrate", "correct a chip from what msprof measured on yours"),
    "doctor": ("toprope.commands.doctor", "what is on this machine, what is missing, how to fix it"),
    "completion": ("toprope.commands.completion", 'words for the shell: eval "$(toprope completion bash)"'),
    "editor": ("toprope.commands.editor", "files for clangd and VS Code: completion, no false errors, tasks"),
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
    """Run one verb. Exit codes: 0 good, 1 findings or a failed comparison, 2 bad input, 3 the kernel crashed or hung, 4 our own mistake."""
    if "_ARGCOMPLETE" in os.environ:
        from toprope.commands.completion import complete  # the shell asks, nobody else

        complete({verb: module for verb, (module, _) in VERBS.items()})
    if argv is None:
        prepare_process()
    translate_help()
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if arguments[0] in ("-V", "--version"):
        print(f"toprope {version()}")
        return 0
    if arguments[0] == "--sandbox":
        return guarded(sandboxed, arguments[1:], form_of(arguments[1:]))
    if "--watch" in arguments[1:]:
        from toprope.commands.watch import again  # only this needs a watcher of files

        return guarded(lambda rest: again([sys.executable, "-m", "toprope.cli"], arguments[0], rest), arguments[1:], "")
    # `test` and `compat` write their data to a file that follows the option.
    form = "" if arguments[0] in ("test", "compat") else form_of(arguments[1:])
    return guarded(lambda rest: _verb(arguments[0], rest), arguments[1:], form)


def _verb(verb: str, rest: list[str]) -> int:
    if verb not in VERBS and Path(verb).suffix in (".cpp", ".asc", ".cce"):
        raise BadOption(
            say("toprope has no verb {verb}").format(verb=repr(verb)),
            cure=f"say what to do with it: toprope run {verb}",
        )
    if verb not in VERBS:
        raise BadOption(
            say("toprope has no verb {verb}").format(verb=repr(verb)) + nearest(verb, list(VERBS)),
            cure="toprope --help lists them",
        )
    return int(import_module(VERBS[verb][0]).main(rest))


def sandboxed(arguments: list[str]) -> int:
    """Replace this process by the same command in a sandbox: no network, only the current folder and the cache can be written.

    Raises BadOption where there is no bubblewrap, or where it cannot make a sandbox (a container without user namespaces).
    """
    tool = shutil.which("bwrap")
    if tool is None:
        raise BadOption(
            "--sandbox needs bubblewrap, which this machine does not have",
            cure="install it: apt-get install bubblewrap",
        )
    from toprope.cache import cache_dir  # loaded here: most commands do not need it so early

    cache, here = str(cache_dir()), os.getcwd()
    shut = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    for folder in sorted({sys.base_prefix, sys.prefix, *sys.path, *toprope.__path__}):
        if Path(folder).is_relative_to("/tmp") and Path(folder).exists():
            shut += ["--ro-bind", folder, folder]  # else the empty /tmp would hide this program itself
    shut += ["--bind", here, here, "--bind", cache, cache, "--chdir", here, "--unshare-all", "--die-with-parent"]
    shut += ["--setenv", "TOPROPE_CACHE", cache]
    # bubblewrap's own failure ends with 1, which would read as findings: it is asked first, with a command that does nothing.
    asked = subprocess.run([tool, *shut, "true"], capture_output=True, text=True, check=False)
    if asked.returncode:
        raise BadOption(
            f"--sandbox: bubblewrap cannot make a sandbox here: {asked.stderr.strip() or f'exit code {asked.returncode}'}",
            cure="allow user namespaces (sysctl kernel.unprivileged_userns_clone=1; docker run --security-opt seccomp=unconfined), or leave --sandbox out",
        )
    flush()
    # -P: a file of the current folder that is called like a Python module must not be imported, and so executed, in its place.
    os.execv(tool, [tool, *shut, sys.executable, "-P", "-m", "toprope.cli", *arguments])


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

"""Runs the device tests of an op-plugin checkout, unmodified, on the software NPU and counts them. It contains none of them.

    PYTHONPATH=FOLDER_WITH_TORCH_NPU python tests/toolkit/op_plugin.py CHECKOUT [--half 0|1] [--jobs 2] [--json FILE] [--only WORD]

Each file runs in a process of its own, forked from one that has imported torch and torch_npu already. The halves are a fixed random split of the
files: one to look at, the other to count only. A test that its own decorator leaves out, because it is for another chip, is counted apart.
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import json
import os
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SEED = 20
FOLDERS = ("test_base_ops",)
BY_NAME = 134  # how the device library ends a program that asks for an operator of CANN by name, beside aclnn
ENDS = ("passed", "failed", "time limit", "crash", "not loaded", "by name", "other chip")


def halves(files: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The files in two random halves that are always the same."""
    shuffled = sorted(files)
    random.Random(SEED).shuffle(shuffled)
    return sorted(shuffled[::2]), sorted(shuffled[1::2])


class Lines:
    """Whole lines out of a pipe, as they come: a reader with a buffer of its own would hide lines from select."""

    def __init__(self, number: int) -> None:
        self.number, self.rest, self.ended = number, b"", False

    def read(self) -> list[str]:
        data = os.read(self.number, 1 << 16)
        self.ended = not data
        *lines, self.rest = (self.rest + data).split(b"\n")
        return [line.decode() for line in lines]


# ---- in the process that `toprope exec` starts ------------------------------------------------------------------------------------------


class Counted(unittest.TextTestResult):
    """One line of JSON for each test."""

    def tell(self, test: Any, end: str, why: str = "") -> None:
        print(json.dumps({"test": str(test).split(" ")[0], "end": end, "why": why}), file=self.file, flush=True)

    def startTest(self, test: Any) -> None:
        super().startTest(test)
        print(json.dumps({"begins": test.id()}), file=self.file, flush=True)
        signal.alarm(self.limit_s)

    def stopTest(self, test: Any) -> None:
        signal.alarm(0)
        super().stopTest(test)

    def addSuccess(self, test: Any) -> None:
        super().addSuccess(test)
        self.tell(test, "passed")

    def addFailure(self, test: Any, err: Any) -> None:
        super().addFailure(test, err)
        self.tell(test, "failed", self.errors_of(err))

    def addError(self, test: Any, err: Any) -> None:
        super().addError(test, err)
        self.tell(test, "time limit" if err[0] is TimeoutError else "failed", self.errors_of(err))

    def addSkip(self, test: Any, reason: str) -> None:
        super().addSkip(test, reason)
        self.tell(test, "other chip", reason)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.tell(test, "failed", self.errors_of(err))

    @staticmethod
    def errors_of(err: Any) -> str:
        return f"{err[0].__name__}: {str(err[1])[:1500]}"


def _each(suite: Any) -> Any:
    for test in suite:
        yield from _each(test) if isinstance(test, unittest.TestSuite) else [test]


def run_one(file: Path, out: Any, limit_s: int, known: set[str]) -> None:
    """Load a test file and run what is not known yet, in a process of its own."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"more than {limit_s} s")

    signal.signal(signal.SIGALRM, stop)
    Counted.file, Counted.limit_s = out, limit_s
    sys.path.insert(0, str(file.parent))
    os.chdir(tempfile.mkdtemp(prefix="op_plugin-"))
    try:
        spec = importlib.util.spec_from_file_location(file.stem, file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[file.stem] = module
        signal.alarm(3 * limit_s)
        spec.loader.exec_module(module)
        signal.alarm(0)
        tests = unittest.TestSuite(
            t for t in _each(unittest.defaultTestLoader.loadTestsFromModule(module)) if t.id() not in known
        )
    except BaseException as error:
        print(
            json.dumps({"test": file.stem, "end": "not loaded", "why": f"{type(error).__name__}: {error}"[:1500]}),
            file=out,
            flush=True,
        )
        return
    with open(os.devnull, "w") as nowhere:
        unittest.TextTestRunner(resultclass=Counted, stream=nowhere, verbosity=0).run(tests)


def serve(limit_s: int) -> None:
    """Read names of files, run each in a fork, and copy what it tells to the standard output."""
    import torch  # noqa: F401
    import torch_npu
    import torch_npu.testing.common_utils
    import torch_npu.testing.testcase  # noqa: F401

    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print("ready", file=told, flush=True)
    for line in sys.stdin:
        file, known, begin = Path(line.strip()), set(), time.monotonic()
        while _again(file, known, limit_s, begin, told):
            pass
        print(json.dumps({"file": file.name, "seconds": round(time.monotonic() - begin, 2)}), file=told, flush=True)


def _again(file: Path, known: set[str], limit_s: int, begin: float, told: Any) -> bool:
    """Run the tests of a file that are not known; whether there may be more, because the process ended in one of them."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.setpgid(0, 0)
        code = 1
        try:
            out = os.fdopen(writer, "w")
            run_one(file, out, limit_s, known)
            out.flush()
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    lines, running, late = Lines(reader), "", False
    while not lines.ended and not late:
        late = not select.select([reader], [], [], max(0.1, begin + 4 * limit_s - time.monotonic()))[0]
        for row in [] if late else lines.read():
            if row.startswith('{"begins"'):
                running = json.loads(row)["begins"]
                known.add(running)
            else:
                running = ""
                print(row, file=told, flush=True)
    os.close(reader)
    if late:
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if late:
        print(json.dumps({"test": running or file.stem, "end": "time limit", "why": "the file"}), file=told, flush=True)
    elif code != 0:
        end = "by name" if code == BY_NAME else "crash"
        print(json.dumps({"test": running or file.stem, "end": end, "why": f"exit code {code}"}), file=told, flush=True)
    return code not in (0, 1) and not late and bool(running)


# ---- outside ----------------------------------------------------------------------------------------------------------------------------


def started(limit_s: int, log: Any) -> Any:
    toprope = [sys.executable, "-P", "-c", "import sys; from toprope.cli import main; sys.exit(main())"]
    command = [*toprope, "exec", "--", sys.executable, __file__, "--serve", str(limit_s)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)


class _Server:
    """One command that runs files, and the file that it runs."""

    def __init__(self, process: Any) -> None:
        self.process, self.lines, self.file, self.done = process, Lines(process.stdout.fileno()), "", False

    def next(self, waiting: list[Path]) -> None:
        if not waiting:
            self.done = True
            self.process.stdin.close()
            return
        file = waiting.pop()
        self.file = file.name
        self.process.stdin.write(f"{file}\n")
        self.process.stdin.flush()


def run(files: Sequence[Path], jobs: int, limit_s: int, minutes: float, log: Path) -> tuple[list[dict[str, Any]], int]:
    """Run the files on so many servers, in a random order: one row a test, and how many files there was no time for."""
    rows: list[dict[str, Any]] = []
    waiting, left, begin = list(files), 0, time.monotonic()
    random.Random(SEED + 1).shuffle(waiting)
    with log.open("w") as errors:
        servers = [_Server(started(limit_s, errors)) for _ in range(jobs)]
        while servers:
            for number in select.select([s.lines.number for s in servers], [], [])[0]:
                server = next(s for s in servers if s.lines.number == number)
                for line in server.lines.read():
                    if line.startswith("{") and "test" in (told := json.loads(line)):
                        rows.append({"file": server.file, **told})
                    elif line.startswith("{") or line == "ready":
                        if server.file:
                            passed = sum(r["end"] == "passed" for r in rows)
                            print(f"{line} {passed} of {len(rows)} passed", file=sys.stderr, flush=True)
                        if minutes and time.monotonic() - begin > 60 * minutes:
                            left += len(waiting)
                            waiting.clear()
                        server.next(waiting)
                if server.lines.ended:
                    servers.remove(server)
                    if not server.done:
                        if not server.file:
                            sys.exit("torch_npu cannot be loaded under toprope exec: see --log FILE")
                        rows.append({"file": server.file, "test": server.file, "end": "crash", "why": "the server"})
                        servers.append(_Server(started(limit_s, errors)))
    return rows, left


def kind_of(why: str) -> str:
    """What a failure comes down to: the function without an executor, the message without numbers."""
    if found := re.search(r"(aclnn\w+) has no executor", why):
        return f"{found[1]} has no executor"
    if found := re.search(r"the reference of (aclnn\w+)[^\n]*", why):
        return found[0][:160]
    return re.sub(r"[-+]?\d[\d.e+-]*", "#", why.strip().splitlines()[0] if why.strip() else "")[:160]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, nargs="?")
    parser.add_argument("--half", type=int, choices=(0, 1))
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit-s", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=0.0, help="start no file after that; 0: run all")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--log", type=Path, default=Path(os.devnull))
    parser.add_argument("--serve", type=int, default=0)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return 0
    files = [f.resolve() for folder in FOLDERS for f in (given.checkout / "test" / folder).glob("test_*.py")]
    if not files:
        parser.error(f"{given.checkout} has no test/{FOLDERS[0]}")
    chosen = sorted(files) if given.half is None else halves(files)[given.half]
    chosen = [f for f in chosen if re.search(given.only, f.name)]
    rows, left = run(chosen, given.jobs, given.limit_s, given.minutes, given.log)
    counts = collections.Counter(r["end"] for r in rows)
    kinds = collections.Counter(kind_of(r["why"]) for r in rows if r["end"] not in ("passed", "other chip", "by name"))
    for kind, n in kinds.most_common():
        print(f"{n:5} {kind}")
    counted = len(rows) - counts["other chip"] - counts["by name"]
    print(
        ", ".join(f"{counts[e]} {e}" for e in ENDS),
        f"in {len(chosen) - left} files" + f"; no time for {left} more" * bool(left),
    )
    print(
        f"{counts['passed']} of {counted} tests for this chip and aclnn passed ({counts['passed'] / max(1, counted):.1%})"
    )
    if given.json:
        given.json.write_text(json.dumps({"files": len(chosen), "counts": dict(counts), "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

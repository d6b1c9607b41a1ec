"""Run one command with the toolkit's environment, with the recorder in this process: every program that it starts is reported on."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from toprope.errors import BadInput
from toprope.finding import Finding, codes
from toprope.toolkit.prefix import prefix, variables
from toprope.toolkit.recorder import follow
from toprope.toolkit.session import Finished, Session


@contextlib.contextmanager
def _listening(operators: dict[str, Any]) -> Iterator[tuple[str, list[Session]]]:
    """A socket that programs report to; the sessions fill while they run, and are whole when the block ends."""
    sessions: list[Session] = []
    threads: list[threading.Thread] = []
    with tempfile.TemporaryDirectory(prefix="toprope-") as folder, socket.socket(socket.AF_UNIX) as server:
        path = f"{folder}/recorder"
        server.bind(path)
        server.listen(64)

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                thread = threading.Thread(
                    target=lambda c=connection: sessions.append(follow(c, operators)), daemon=True
                )
                threads.append(thread)
                thread.start()

        accepting = threading.Thread(target=serve, daemon=True)
        accepting.start()
        yield path, sessions
        server.shutdown(socket.SHUT_RDWR)
        accepting.join(5)
        for thread in threads:
            thread.join(600)


def _end_with_parent() -> None:
    _LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


_LIBC = ctypes.CDLL(None)
_END_WITH_PARENT = _end_with_parent if sys.platform == "linux" else None


def run(
    command: Sequence[str],
    *,
    soc: str = "",
    limit_s: float = 0.0,
    environment: Mapping[str, str] | None = None,
    operators: dict[str, Any] | None = None,
    quiet: bool = False,
) -> Finished:
    """Run a command and follow the programs in it; if `quiet`, what it prints goes to standard error. `limit_s` 0: no limit. `operators` are loaded projects whose aclnn functions it calls. Raises BadInput for a command that does not start."""
    place = prefix()
    env = dict(os.environ)
    env |= variables(place, env)
    env |= environment or {}
    if soc:
        env["TOPROPE_SOC"] = soc
    timed_out = False
    with _listening(operators or {}) as (path, sessions):
        env |= {"TOPROPE_RECORDER": path}
        env.pop("TOPROPE_REPORT", None)
        sys.stdout.flush()
        try:
            child = subprocess.Popen(
                command,
                env=env,
                start_new_session=bool(limit_s),
                stdout=2 if quiet else None,
                preexec_fn=_END_WITH_PARENT,
            )
        except OSError as error:
            raise BadInput(
                f"{command[0]} does not start: {error.strerror}", cure="toprope exec -- COMMAND ARGUMENTS"
            ) from None
        with child:
            try:
                code = child.wait(limit_s or None)
            except subprocess.TimeoutExpired:
                timed_out = True
                os.killpg(child.pid, signal.SIGKILL)
                code = child.wait()
            except BaseException:  # Ctrl-C, SIGTERM: what was started ends too
                with contextlib.suppress(OSError):
                    os.killpg(child.pid, signal.SIGKILL) if limit_s else child.kill()
                child.wait(10)
                raise
    finished = Finished(code, sessions, timed_out)
    _say_how_it_ended(finished, limit_s)
    return finished


def _say_how_it_ended(finished: Finished, limit_s: float) -> None:
    """A finding for a program that did not end by itself."""
    session = finished.sessions[-1] if finished.sessions else None
    if session is None:
        if not finished.timed_out and finished.code >= 0:
            return
        session = Session()
        finished.sessions.append(session)
    if finished.timed_out:
        message = f"the program did not end within {limit_s:g} s"
        session.add(Finding("program-time-limit", "error", message, (), codes()["program-time-limit"].cure))
        return
    for each in finished.sessions:
        died = finished.code if len(finished.sessions) == 1 or each is session else 0
        if each.code is None and died < 0:
            name = signal.Signals(-died).name
            message = f"the host program died of {name}"
            if died == -signal.SIGABRT:
                message += ", as abort() and an exception that nobody catches do"
            each.add(Finding("program-crash", "error", message, (), codes()["program-crash"].cure))
        elif each.code is None and each.program and died >= 0:
            message = f"{Path(each.program).name} (process {each.pid}) ended without a word: killed, or a crash"
            each.add(Finding("program-crash", "error", message, (), codes()["program-crash"].cure))

"""Run a function in a forked child with a time and memory limit, so that foreign code cannot take the process down."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from toprope.testing.errors import CaseError

Result = TypeVar("Result")


def isolated(
    function: Callable[..., Result], *arguments: Any, timeout_s: float = 60, memory_bytes: int = 8 << 30
) -> Result:
    """function(*arguments) in a child; its result must pickle. Raises CaseError on a time-out, a crash or any exception.

    The child inherits what is already imported (torch loads once for hundreds of calls), which is why it is forked.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(sender, function, arguments, memory_bytes), daemon=False)
    child.start()
    sender.close()
    try:
        result: Result = _await(receiver, child.pid or 0, timeout_s)
        return result
    finally:
        receiver.close()
        child.join(1)
        if child.is_alive():
            child.kill()
            child.join()


def _await(receiver: Connection, pid: int, timeout_s: float) -> Any:
    deadline = time.monotonic() + timeout_s
    while not receiver.poll(min(1.0, max(0.0, deadline - time.monotonic()))):
        if time.monotonic() >= deadline:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            raise CaseError(f"runs longer than {timeout_s:g} s")
    try:
        good, value = receiver.recv()
    except EOFError:
        raise CaseError(
            "the process died", cure="run it alone to see where; too little memory is a common cause"
        ) from None
    if good:
        return value
    raise CaseError(value)


def _child(sender: Connection, function: Callable[..., Any], arguments: tuple[Any, ...], memory_bytes: int) -> None:
    os.setpgid(0, 0)
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            result = (True, function(*arguments))
    except BaseException as error:  # whatever foreign code raises, SystemExit included, is that case's failure
        result = (False, f"{type(error).__name__}: {error}".strip()[:500])
    sender.send(result)
    sender.close()
    # Foreign libraries may hang in their exit handlers; the result is already delivered.
    os._exit(0)

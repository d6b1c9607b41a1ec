"""The process beside a program: reads what its device library sends until the line closes, then says what was found.

It lives longer than the program, so a crash loses nothing. Started by the device library itself, or, under `toprope exec`, part of that.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from typing import Any

from toprope.toolkit.session import Session

QUESTIONS = ("elapsed", "moment", "plan", "execute")
_HEAD = struct.Struct("<QQ")


class Line:
    """The socket to one program."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.files: list[int] = []

    def read(self) -> tuple[dict[str, Any], bytes] | None:
        """The next message; None when the program is gone."""
        head = self._bytes(_HEAD.size)
        if head is None:
            return None
        text_bytes, payload_bytes = _HEAD.unpack(head)
        text, payload = self._bytes(text_bytes), self._bytes(payload_bytes)
        if text is None or payload is None:
            return None
        return json.loads(text.decode(errors="replace")), payload

    def answer(self, text: str, payload: bytes) -> None:
        """Answer a question."""
        data = text.encode()
        with contextlib.suppress(OSError):  # the program is gone
            self.connection.sendall(_HEAD.pack(len(data), len(payload)) + data + payload)

    def _bytes(self, size: int) -> bytes | None:
        if size == 0:
            return b""
        out = bytearray(size)
        view, have = memoryview(out), 0
        while have < size:
            room = array.array("i")
            try:
                n, control, _, _ = self.connection.recvmsg_into([view[have:]], socket.CMSG_LEN(room.itemsize))
            except OSError:
                return None
            for level, kind, data in control:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    room.frombytes(data[: room.itemsize])
                    self.files += list(room)
            if n == 0:
                return None
            have += n
        return bytes(out)


def follow(
    connection: socket.socket,
    operators: dict[str, Any] | None = None,
    at_end: Callable[[Session], None] = lambda session: None,
) -> Session:
    """Take everything that one program sends. What goes wrong here is a finding, never a hang of the program.

    `operators` are projects that are loaded already, by file name. `at_end` is called when the program has ended in order, and waits.
    """
    line, session = Line(connection), Session(operators=operators or {}, planner_for=_planner)
    with connection:
        while (got := line.read()) is not None:
            message, payload = got
            try:
                while line.files:
                    session.share(line.files.pop())
                answer = session.take(message, payload)
            except Exception as error:
                traceback.print_exc()
                print(f"toprope: the recorder cannot use {message.get('t')}: {error}", file=sys.stderr)
                answer = ("", b"") if message.get("t") in QUESTIONS else None
            if answer is not None:
                line.answer(*answer)
            if message["t"] == "end":
                at_end(session)
    session.release()
    return session


def _planner(session: Session) -> Any:
    from toprope.toolkit.plans import Planner  # operator projects and their readers: not for every program

    return Planner(session)


def main(argv: list[str]) -> int:
    """Follow the program at the other end of the given file number."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    session = follow(socket.socket(fileno=int(argv[0])), at_end=_say)
    if session.code is None and session.program:
        _say(session)
    return 0


def _say(session: Session) -> None:
    from toprope.toolkit import show  # only when there is something to say

    show.at_exit(session)

"""What every verb shares: option parsing that complains like the rest, output for programs, and an end that is always said.

Output for programs (`--json`, `--format sarif`) is a valid document whatever happens: docs/json.md lists the schemas.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from toprope.errors import TopropeError
from toprope.language import say

BAD_INPUT, CRASHED, INTERNAL = 2, 3, 4
SARIF = "https://json.schemastore.org/sarif-2.1.0.json"


class BadOption(TopropeError):
    code = "bad-input"


class Parser(argparse.ArgumentParser):
    """argparse whose complaints have a code and a cure, as all others have."""

    def error(self, message: str) -> NoReturn:
        options = [word for action in self._actions for word in action.option_strings]
        unknown = next((w for w in message.split() if w.startswith("--")), "") if "unrecognized" in message else ""
        raise BadOption(message + nearest(unknown.partition("=")[0], options), cure=f"see {self.prog} --help")


def version() -> str:
    """The version of this package."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as of_package  # loaded here: it is slow and rarely asked for

    try:
        return of_package("toprope")
    except PackageNotFoundError:
        return "unknown"


def document(schema: str, body: Mapping[str, Any]) -> str:
    """A JSON document: what it is, which version wrote it, then `body`. Infinities and NaN, which JSON has not, become null."""
    return json.dumps({"schema": f"toprope.{schema}/1", "version": version(), **_plain(body)}, indent=1)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


def failure(form: str, code: str, message: str, cure: str, exit_code: int) -> str:
    """The document that stands for a result when there is none: `form` "json" or "sarif"."""
    if form == "json":
        return document("error", {"exit_code": exit_code, "error": {"code": code, "message": message, "cure": cure}})
    text = message + (f"\nCure: {cure}" if cure else "")
    told = {"level": "error", "descriptor": {"id": code}, "message": {"text": text}}
    run = {
        "tool": {"driver": {"name": "toprope", "version": version()}},
        "invocations": [{"executionSuccessful": False, "exitCode": exit_code, "toolExecutionNotifications": [told]}],
        "results": [],
    }
    return json.dumps({"$schema": SARIF, "version": "2.1.0", "runs": [run]}, indent=2)


def form_of(arguments: Sequence[str]) -> str:
    """Which output for programs these arguments ask for: "json", "sarif" or ""."""
    for i, word in enumerate(arguments):
        name, _, value = word.partition("=")
        if name == "--format":
            value = value or (arguments[i + 1] if i + 1 < len(arguments) else "")
            if value in ("json", "sarif"):
                return value
    return "json" if "--json" in arguments else ""


def guarded(verb: Callable[[list[str]], int], arguments: list[str], form: str) -> int:
    """Run a verb. Its exit code; every failure is one message, and for programs (`form` "json", "sarif") one document."""
    out = _Held() if form else None
    if out is not None:
        sys.stdout, real = out, sys.stdout
    try:
        code = _outcome(verb, arguments)
    finally:
        if out is not None:
            sys.stdout = real
    exit_code, told = code
    if out is not None:
        text = out.getvalue()
        if exit_code in (BAD_INPUT, CRASHED, INTERNAL) and not _is_document(text):
            text = failure(form, *(told or ("internal-error", "no result", "")), exit_code) + "\n"
        sys.stdout.write(text)
    flush()
    return exit_code


class _Held(io.StringIO):
    """Output that is held back until it is known to be whole."""

    def isatty(self) -> bool:
        return False


def _is_document(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except ValueError:
        return False


def _outcome(verb: Callable[[list[str]], int], arguments: list[str]) -> tuple[int, tuple[str, str, str] | None]:
    try:
        return int(verb(arguments)), None
    except TopropeError as error:
        print(error, file=sys.stderr)
        return error.exit_code, (error.code, error.message, error.cure)
    except KeyboardInterrupt:
        print(say("interrupted"), file=sys.stderr)
        return 130, None
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0, None
        print(end.code, file=sys.stderr)
        return BAD_INPUT, ("bad-input", str(end.code), "")
    except OSError as error:
        told = (
            "bad-input",
            f"{error.filename or 'a file'}: {error.strerror or error}",
            "check the path, its permissions and the disk",
        )
        print(f"{told[0]}: {told[1]}\ncure: {told[2]}", file=sys.stderr)
        if os.environ.get("TOPROPE_DEBUG"):
            traceback.print_exc()
        return BAD_INPUT, told
    except Exception as error:
        # A mistake of ours: one line for the user, the traceback for whoever reports it.
        told = (
            "internal-error",
            f"{type(error).__name__}: {error}",
            "please report this; TOPROPE_DEBUG=1 shows where it happened",
        )
        print(f"{told[0]}: {told[1]}\ncure: {told[2]}", file=sys.stderr)
        if os.environ.get("TOPROPE_DEBUG"):
            traceback.print_exc()
        return INTERNAL, told


class _Tolerant(io.FileIO):
    """Standard output whose reader may leave (`| head`): the rest is dropped, the verb goes on to its exit code."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)


def prepare_process() -> None:
    """For the toprope command: a reader that leaves is no failure, and SIGTERM ends what was started too."""
    if sys.stdout is sys.__stdout__ and sys.stdout is not None:
        sys.stdout.flush()
        raw = _Tolerant(1, "w", closefd=False)
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(raw), sys.stdout.encoding, "backslashreplace", line_buffering=sys.stdout.isatty()
        )

    def end(number: int, frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)


def flush() -> None:
    """Send out what was printed; a reader that has left is no failure."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BrokenPipeError):
            stream.flush()


def nearest(word: str, known: Sequence[str]) -> str:
    """ ", did you mean X?" for a word that is close to a known one; else ""."""
    found = word and difflib.get_close_matches(word.lower(), [k.lower() for k in known], 1, 0.6)
    return next((f", did you mean {k!r}?" for k in known if found and k.lower() == found[0]), "")


def pairs(tokens: Sequence[str], example: str) -> list[tuple[str, str]]:
    """NAME=VALUE words; a name that is given twice is a mistake, because only one of the values could count."""
    pairs: list[tuple[str, str]] = []
    for token in tokens:
        name, equals, value = token.partition("=")
        if not equals or not name.strip():
            raise BadOption(
                f"{token!r} is not NAME=VALUE",
                cure=f"write it without spaces around =, in quotes: for example {example}",
            )
        if name.strip() in dict(pairs):
            raise BadOption(f"{name.strip()} is given twice", cure="give each name once")
        pairs.append((name.strip(), value))
    return pairs

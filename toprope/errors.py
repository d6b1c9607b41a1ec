"""The exceptions of toprope.

TopropeError tree::

    TopropeError            anything toprope refuses or cannot do; message is one sentence plus the cure
    ├── NoCompiler          no C++ compiler on this machine
    ├── CompileFailed       the user's source does not compile (message shows the user's own lines)
    ├── BadKernel           no kernel entry, unreadable source, unknown task type
    ├── BadArgument         wrong count, dtype, shape, size or value of a kernel argument
    ├── BadChip             unknown or incomplete chip description
    ├── KernelEnded         a kernel crashed, exited or did not end, and there is nothing to show of its run
    └── BadInput            any other file or option that cannot be used
"""

from __future__ import annotations

from toprope.language import say


class TopropeError(Exception):
    """A mistake in what the user gave, with what to do about it.

    `code` is stable and has a page docs/errors/<code>.md.
    """

    code = "toprope-error"
    exit_code = 2

    def __init__(self, message: str, *, cure: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure
        if code:
            self.code = code

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f"\n{say('cure')}: {self.cure}" if self.cure else "")


class NoCompiler(TopropeError):
    code = "no-compiler"


class CompileFailed(TopropeError):
    code = "compile-failed"


class BadKernel(TopropeError):
    code = "bad-kernel"


class BadArgument(TopropeError):
    code = "bad-argument"


class BadChip(TopropeError):
    code = "bad-chip"


class BadInput(TopropeError):
    code = "bad-input"


class KernelEnded(TopropeError):
    code = "kernel-crash"
    exit_code = 3

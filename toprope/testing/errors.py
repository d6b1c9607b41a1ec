"""What can go wrong while reading, generating, running or judging cases.

TopropeError
└── TestingError
    ├── FormatError      a case file, asset or script does not say what its format demands
    ├── CaseError        a case asks for something that cannot be generated or run
    └── StandardError    an unknown precision standard, or one with no limits for this dtype
"""

from __future__ import annotations

from toprope.errors import TopropeError


class TestingError(TopropeError):
    """Any complaint of the test framework: what is wrong, where (file, case or parameter), and what to do about it."""

    __test__ = False  # pytest would otherwise try to collect a class whose name starts with "Test"
    code = "testing-error"

    def __init__(self, what: str, *, where: str = "", cure: str = "") -> None:
        super().__init__(f"{what}\n  at {where}" if where else what, cure=cure)
        self.what, self.where = what, where

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default pickling, and cases run in other processes.
        return _rebuild, (type(self), self.what, self.where, self.cure)


def _rebuild(kind: type[TestingError], what: str, where: str, cure: str) -> TestingError:
    return kind(what, where=where, cure=cure)


class FormatError(TestingError):
    """A file does not follow its own format."""

    code = "case-format"


class CaseError(TestingError):
    """A case cannot be generated or run as written."""

    code = "case-impossible"


class StandardError(TestingError):
    """A precision standard is unknown or does not cover the data at hand."""

    code = "precision-standard"

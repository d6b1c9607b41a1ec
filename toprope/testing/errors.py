"""What can go wrong while reading, generating, running or judging cases.

TestingError
├── FormatError      a case file, asset or script does not say what its format demands
├── CaseError        a case asks for something that cannot be generated
└── StandardError    an unknown precision standard, or one with no limits for this dtype
"""

from __future__ import annotations


class TestingError(Exception):
    """Any complaint of the test framework: what is wrong, where, and what to do about it.

    `code` is stable and kebab-case; `where` names a file, case or parameter; `cure` is the next move.
    """

    __test__ = False  # pytest would otherwise try to collect a class whose name starts with "Test"
    code = "testing-error"

    def __init__(self, what: str, *, where: str = "", cure: str = "") -> None:
        self.what, self.where, self.cure = what, where, cure
        lines = [f"{self.code}: {what}"]
        if where:
            lines.append(f"  at {where}")
        if cure:
            lines.append(f"cure: {cure}")
        super().__init__("\n".join(lines))


class FormatError(TestingError):
    """A file does not follow its own format."""

    code = "case-format"


class CaseError(TestingError):
    """A case cannot be generated or run as written."""

    code = "case-impossible"


class StandardError(TestingError):
    """A precision standard is unknown or does not cover the data at hand."""

    code = "precision-standard"

"""Whole programs: host C++ with ACL calls, aclnn calls of a custom operator, and single-file sources with `<<<...>>>`, run here."""

from toprope.program.run import LaunchRow, ProgramRun, run_program
from toprope.program.show import as_json, show
from toprope.program.source import SOURCES, is_program

__all__ = ["SOURCES", "LaunchRow", "ProgramRun", "as_json", "is_program", "run_program", "show"]

"""Operator testing: cases, golden references, precision standards, readers of the ecosystem's files, and a runner."""

from toprope.testing.compare import Verdict, compare
from toprope.testing.standards import standards

__all__ = ["Verdict", "compare", "standards"]

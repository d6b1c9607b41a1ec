"""Operator testing: cases, golden references, precision standards, readers of the ecosystem's files, and a runner."""

from toprope.testing.cases import Absent, Argument, ArgumentList, Case
from toprope.testing.compare import Verdict, compare
from toprope.testing.data import Fill
from toprope.testing.generate import generate
from toprope.testing.golden import Golden
from toprope.testing.signature import Attribute, Signature, Tensor
from toprope.testing.standards import standards

__all__ = [
    "Absent",
    "Argument",
    "ArgumentList",
    "Attribute",
    "Case",
    "Fill",
    "Golden",
    "Signature",
    "Tensor",
    "Verdict",
    "compare",
    "generate",
    "standards",
]

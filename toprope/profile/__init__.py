"""Questions to a run: what would be faster if ..., which resource is the bound, how evenly do the cores work.

Every piece of advice is a counterfactual: the trace (or the chip) is changed as the advice says, predicted again, and the difference
is the expected gain. Nothing here has a rule of thumb for a gain.
"""

from toprope.profile.checklist import Check, checklist
from toprope.profile.diagnosis import diagnose
from toprope.profile.memory import MemoryUse, memory_use
from toprope.profile.roofline import Roofline, roofline

__all__ = ["Check", "MemoryUse", "Roofline", "checklist", "diagnose", "memory_use", "roofline"]

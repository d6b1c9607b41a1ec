"""Rates that tests may rely on, whatever the chip files learn."""

from toprope.serve.planning.step_cost import ChipRates

ATLAS_A2 = ChipRates("Atlas A2", flops_per_s=261e12, bytes_per_s=1.49e12, memory_bytes=64e9, overhead_s=3e-3)

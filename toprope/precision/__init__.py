"""Precision debugging: a run in lockstep with a float64 shadow. docs/precision.md is the manual.

capture -> shadow.replay (both values of everything written) -> blame.diagnose (from the worst output back to its cause)
"""

"""Triton functions as input: read from their syntax tree, evaluated program by program, emitted as Ascend C (docs/triton.md)."""

"""Ascend C from instructions: fixed functions, the kernel's class, its entry."""

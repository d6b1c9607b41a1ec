"""Operator projects of the shape op_host/, op_kernel/, tests/: reading one, and running it through its own host code."""

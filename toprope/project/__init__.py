"""Operator projects: reading, checking, generating and running folders of the shape op_host/, op_kernel/, tests/."""

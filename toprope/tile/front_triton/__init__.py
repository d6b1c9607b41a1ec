"""Triton functions, read into the form."""

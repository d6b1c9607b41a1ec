"""Published device times against our predictions: kernels of our own, written to the published tilings, run and predicted.

`python -m toprope.validation [--all] [--json]` writes docs/validation.md.
"""

"""Gives NumPy 2 the names that it dropped, for data scripts written for NumPy 1. Python imports this at its start."""

import numpy as np

_OLD = {
    "bool8": np.bool_, "float_": np.float64, "complex_": np.complex128, "int0": np.intp, "uint0": np.uintp, "product": np.prod,
    "cumproduct": np.cumprod, "sometrue": np.any, "alltrue": np.all, "in1d": np.isin, "Inf": np.inf, "NaN": np.nan, "PINF": np.inf,
    "NINF": -np.inf,
}  # fmt: skip
for _name, _now in _OLD.items():
    if not hasattr(np, _name):
        setattr(np, _name, _now)

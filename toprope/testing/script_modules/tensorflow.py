"""Stands in for TensorFlow in data scripts of unit tests, which import it only for its bfloat16 NumPy type."""

import ml_dtypes


class _Type:
    def __init__(self, numpy_type: type) -> None:
        self.as_numpy_dtype = numpy_type


bfloat16 = _Type(ml_dtypes.bfloat16)

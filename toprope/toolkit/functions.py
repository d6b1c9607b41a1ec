"""aclnn functions that have no kernel here: what they compute, in NumPy, as a reference. A function that is not in the table is refused by name.

One row is all that a function needs. Each takes the inputs (tensors as arrays in device memory, scalars as numbers, in the order of the
call) and fills the outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Values = Sequence[Any]
Function = Callable[[Values, Values], None]


def _fill(outputs: Values, value: Any) -> None:
    outputs[0][...] = np.asarray(value).astype(outputs[0].dtype)


def _add(inputs: Values, outputs: Values) -> None:
    x, y, alpha = inputs
    _fill(outputs, np.asarray(x) + np.asarray(alpha, x.dtype if x.dtype.kind in "iuf" else None) * np.asarray(y))


FUNCTIONS: dict[str, Function] = {
    "aclnnAdd": _add,
    "aclnnAdds": _add,
    "aclnnInplaceCopy": lambda i, o: _fill(o, i[0]),
}

"""Expressions of launch files: what NumPy says, and nothing else of Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toprope.errors import BadInput
from toprope.expression import evaluate

X = np.arange(24, dtype=np.float64).reshape(4, 6) - 7
NAMES = {"x": X, "y": X * 2 + 1, "i": np.array([2, 0, 1]), "n": 3}


@pytest.mark.parametrize(
    "text",
    [
        "x + y", "x * y + x", "-x ** 2 // n % 5", "x @ y.T", "(x * y + x)[:, ::2].sum(1, keepdims=True).repeat(2, 1)", "np.exp(x) / (1 + np.exp(x))",
        "np.where(x.astype(np.float32) > 0, 1, 0.001) * x", "x[i]", "(np.arange(4)[:, None] == i) @ x[:3]", "[x.sum()]", "-np.sort(-x, axis=1)[:, :3]",
        "np.linalg.norm(x, axis=1)", "np.add.reduce(x)", "x if n > 2 else y", "x[..., np.newaxis]", "np.maximum(x, 0).astype('float16')", "abs(x)",
        "np.stack((x, y))[1]", "x.shape[0] * n", "np.pi * x", "(x > 0) & (y < 5) | ~(x == 1)", "0 < n < 5", "np.float16(2.5)", "n << 2 | 1",
    ],
)  # fmt: skip
def test_arithmetic_on_arrays_is_numpys(text: str) -> None:
    np.testing.assert_array_equal(evaluate(text, NAMES), eval(text, {"np": np, "abs": abs, **NAMES}))


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('id')", "open('/etc/passwd').read()", "().__class__.__bases__[0].__subclasses__()", "x.tofile('f')", "np.load('f')",
        "np.fromfile('f')", "np.memmap('f')", "np.lib.npyio", "np.save('f', x)", "x.dump('f')", "x.ctypes", "x.base", "lambda: 1", "[a for a in x]",
        "np.vectorize(abs)", "np.frompyfunc(abs, 1, 1)", "eval('1')", "getattr(x, 'T')", "f'{x}'", "(y := x)", "np.__dict__", "np.os", "x.__array__()",
        "9**9**9", "1 << 99999999", "'a' * 10", "unknown + 1", "x +", "", "x y", "np.ones((10**9, 10**9))", "x.sum(**{})", "*x", "x is y", "n in i",
        "(" * 300 + "x" + ")" * 300, "-" * 5000 + "1", "np.apply_along_axis(abs, 0, x)", "np.random.rand(2)", "x.tobytes()", "\x00",
    ],
)  # fmt: skip
def test_everything_else_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(BadInput) as refusal:
        evaluate(text, NAMES)
    assert refusal.value.cure and "\n" not in refusal.value.message[:80]


@given(st.text(alphabet="xyn0123456789.+-*/%@()[]:,<>=&|~ np.expabsum_'\"\\\n", max_size=60))
def test_no_text_ends_in_anything_but_a_value_or_a_refusal(text: str) -> None:
    try:
        evaluate(text, NAMES)
    except BadInput as refusal:
        assert refusal.message

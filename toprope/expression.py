"""NumPy expressions in launch files, evaluated without giving the file the rest of Python.

A launch file comes with a kernel that somebody else may have written. Its expressions are arithmetic over the arguments, NumPy's functions
of arrays and a few methods; nothing in them reads files, imports or runs code. Whoever needs more names a Python file, and knows it.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from toprope.errors import BadInput

_FUNCTIONS = frozenset(
    [
        "all",
        "allclose",
        "amax",
        "amin",
        "angle",
        "any",
        "append",
        "arange",
        "argmax",
        "argmin",
        "argpartition",
        "argsort",
        "argwhere",
        "around",
        "array",
        "array_equal",
        "array_split",
        "asarray",
        "astype",
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "average",
        "bartlett",
        "bincount",
        "blackman",
        "block",
        "broadcast_arrays",
        "broadcast_to",
        "choose",
        "clip",
        "column_stack",
        "compress",
        "concatenate",
        "convolve",
        "copy",
        "corrcoef",
        "correlate",
        "cov",
        "cross",
        "cumprod",
        "cumsum",
        "delete",
        "diag",
        "diagflat",
        "diagonal",
        "diff",
        "digitize",
        "divide_outer",
        "dot",
        "dsplit",
        "dstack",
        "ediff1d",
        "einsum",
        "empty",
        "empty_like",
        "expand_dims",
        "extract",
        "eye",
        "fill_diagonal",
        "fix",
        "flatnonzero",
        "flip",
        "fliplr",
        "flipud",
        "full",
        "full_like",
        "gradient",
        "hamming",
        "hanning",
        "heaviside",
        "histogram",
        "hsplit",
        "hstack",
        "i0",
        "identity",
        "imag",
        "indices",
        "inner",
        "insert",
        "interp",
        "intersect1d",
        "isclose",
        "isin",
        "isneginf",
        "isposinf",
        "ix_",
        "kaiser",
        "kron",
        "lexsort",
        "linspace",
        "logspace",
        "matmul",
        "matrix_transpose",
        "max",
        "mean",
        "median",
        "meshgrid",
        "min",
        "moveaxis",
        "nan_to_num",
        "nanargmax",
        "nanargmin",
        "nancumsum",
        "nanmax",
        "nanmean",
        "nanmedian",
        "nanmin",
        "nanprod",
        "nanstd",
        "nansum",
        "nanvar",
        "ndim",
        "nonzero",
        "ones",
        "ones_like",
        "outer",
        "pad",
        "partition",
        "percentile",
        "permute_dims",
        "piecewise_constant",
        "prod",
        "ptp",
        "put_along_axis",
        "quantile",
        "ravel",
        "real",
        "repeat",
        "reshape",
        "resize",
        "roll",
        "rollaxis",
        "rot90",
        "round",
        "searchsorted",
        "select",
        "setdiff1d",
        "setxor1d",
        "shape",
        "sinc",
        "size",
        "sort",
        "split",
        "squeeze",
        "stack",
        "std",
        "sum",
        "swapaxes",
        "take",
        "take_along_axis",
        "tensordot",
        "tile",
        "trace",
        "transpose",
        "trapezoid",
        "tri",
        "tril",
        "tril_indices",
        "triu",
        "triu_indices",
        "unique",
        "unravel_index",
        "unwrap",
        "vander",
        "var",
        "vdot",
        "vecdot",
        "vsplit",
        "vstack",
        "where",
        "zeros",
        "zeros_like",
    ]
)
_CONSTANTS = frozenset({"pi", "e", "inf", "nan", "newaxis", "euler_gamma"})
_SUBMODULES = {
    "linalg": frozenset({"norm", "det", "inv", "pinv", "solve", "qr", "svd", "eigh", "eigvalsh", "cholesky", "matrix_power", "slogdet"}),
    "fft": frozenset({"fft", "ifft", "rfft", "irfft", "fft2", "ifft2", "fftn", "ifftn", "fftshift", "ifftshift"}),
}  # fmt: skip
_METHODS = frozenset(
    [
        "all",
        "any",
        "argmax",
        "argmin",
        "argpartition",
        "argsort",
        "astype",
        "clip",
        "compress",
        "conj",
        "conjugate",
        "copy",
        "cumprod",
        "cumsum",
        "diagonal",
        "dot",
        "flatten",
        "max",
        "mean",
        "min",
        "nonzero",
        "prod",
        "ptp",
        "ravel",
        "repeat",
        "reshape",
        "round",
        "searchsorted",
        "sort",
        "squeeze",
        "std",
        "sum",
        "swapaxes",
        "take",
        "trace",
        "transpose",
        "var",
        "view",
        "item",
    ]
)
_ATTRIBUTES = frozenset({"T", "mT", "shape", "size", "ndim", "dtype", "real", "imag", "itemsize", "nbytes", "flat"})
_BUILTINS: dict[str, Any] = {
    "abs": abs, "min": min, "max": max, "round": round, "int": int, "float": float, "bool": bool, "len": len, "sum": sum, "tuple": tuple,
    "list": list, "True": True, "False": False, "None": None,
}  # fmt: skip
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Pow: operator.pow, ast.MatMult: operator.matmul, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos, ast.USub: operator.neg, ast.Invert: operator.invert, ast.Not: operator.not_,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_MOST_BITS = 4096  # of a Python integer: 9**9**9 would never end


def evaluate(text: str, names: Mapping[str, Any]) -> Any:
    """The value of a NumPy expression over `names` (and `np`). Raises BadInput for anything that is not arithmetic on arrays."""
    try:
        return _Evaluator(names).of(ast.parse(text.strip(), mode="eval").body)
    except BadInput:
        raise
    except RecursionError:
        raise BadInput(
            f"{text[:60]!r}... is nested too deeply", cure="move it into a function of a Python file"
        ) from None
    except (SyntaxError, ValueError, MemoryError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        raise BadInput(
            f"{text[:200]!r} fails with {type(error).__name__}: {why}",
            cure="it is a NumPy expression over the argument names",
        ) from None


class _Evaluator:
    def __init__(self, names: Mapping[str, Any]) -> None:
        self.names = {**_BUILTINS, **names}

    def of(self, node: ast.expr | None) -> Any:
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise _refused(f"{type(node).__name__} in an expression")
        return method(node)

    def _constant(self, node: ast.Constant) -> Any:
        return node.value

    def _name(self, node: ast.Name) -> Any:
        if node.id in self.names:
            return self.names[node.id]
        if node.id in ("np", "numpy"):
            return np
        known = ", ".join(k for k in self.names if k not in _BUILTINS) or "none"
        raise BadInput(
            f"{node.id!r} is not known in an expression", cure=f"the arguments are: {known}; functions: np.exp, ..."
        )

    def _tuple(self, node: ast.Tuple) -> Any:
        return tuple(map(self.of, node.elts))

    def _list(self, node: ast.List) -> Any:
        return list(map(self.of, node.elts))

    def _slice(self, node: ast.Slice) -> Any:
        return slice(*(None if part is None else self.of(part) for part in (node.lower, node.upper, node.step)))

    def _subscript(self, node: ast.Subscript) -> Any:
        return self.of(node.value)[self.of(node.slice)]

    def _binop(self, node: ast.BinOp) -> Any:
        left, right = self.of(node.left), self.of(node.right)
        if isinstance(left, str | list | tuple) or isinstance(right, str | list | tuple):
            left, right = np.asarray(left), np.asarray(right)
        if isinstance(left, int) and isinstance(right, int):
            shift = isinstance(node.op, ast.LShift)
            bits = (
                left.bit_length() + right if shift else left.bit_length() * right if isinstance(node.op, ast.Pow) else 0
            )
            if bits > _MOST_BITS:
                raise BadInput("an integer of more than 4,096 bits", cure="write floating-point numbers: 9.0**9")
        return _BINARY[type(node.op)](left, right)

    def _unaryop(self, node: ast.UnaryOp) -> Any:
        return _UNARY[type(node.op)](self.of(node.operand))

    def _compare(self, node: ast.Compare) -> Any:
        left, result = self.of(node.left), None
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            if type(op) not in _COMPARE:
                raise _refused(type(op).__name__)
            right = self.of(right_node)
            one = _COMPARE[type(op)](left, right)
            result = one if result is None else result & one
            left = right
        return result

    def _boolop(self, node: ast.BoolOp) -> Any:
        value: Any = None
        for part in node.values:
            value = self.of(part)
            if bool(value) != isinstance(node.op, ast.And):
                return value
        return value

    def _ifexp(self, node: ast.IfExp) -> Any:
        return self.of(node.body if self.of(node.test) else node.orelse)

    def _attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Attribute) and self._is_numpy(node.value.value):
            if node.attr in _SUBMODULES.get(node.value.attr, ()):
                return getattr(getattr(np, node.value.attr), node.attr)
            if isinstance(getattr(np, node.value.attr, None), np.ufunc) and node.attr in (
                "reduce",
                "accumulate",
                "outer",
            ):
                return getattr(getattr(np, node.value.attr), node.attr)
            raise _refused(f"np.{node.value.attr}.{node.attr}")
        if self._is_numpy(node.value):
            return _of_numpy(node.attr)
        value = self.of(node.value)
        if node.attr in _METHODS | _ATTRIBUTES and isinstance(value, np.ndarray | np.generic):
            return getattr(value, node.attr)
        raise _refused(f".{node.attr}")

    def _is_numpy(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in ("np", "numpy") and node.id not in self.names

    def _call(self, node: ast.Call) -> Any:
        arguments = [self.of(a) for a in node.args]
        if any(k.arg is None for k in node.keywords):
            raise _refused("**")
        named = {str(k.arg): self.of(k.value) for k in node.keywords}
        return self.of(node.func)(*arguments, **named)


def _of_numpy(name: str) -> Any:
    value = getattr(np, name, None)
    allowed = name in _FUNCTIONS or name in _CONSTANTS or isinstance(value, np.ufunc)
    if name == "newaxis" or (
        value is not None and (allowed or (isinstance(value, type) and issubclass(value, np.generic)))
    ):
        return value
    raise _refused(f"np.{name}")


def _refused(what: str) -> BadInput:
    return BadInput(
        f"{what} is not allowed in an expression",
        cure="write a function in a Python file: z = 'golden.py:name' (docs/security.md)",
    )

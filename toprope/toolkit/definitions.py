"""What kernels of the tile language are made of: one line a function, over tiles.

In an expression x, y, w are the tensors that a function reads, in the order of its arguments (without the one that it writes), as float32
whatever they are in memory, and a, b, c, d its numbers; `zero`, `one`, `minus_one` and `fill(a)` are tiles of one number. What the vendor calls alpha, beta or a slope needs no word here.
"""

from __future__ import annotations

WHOLE = {
    "Add",
    "Adds",
    "Sub",
    "Subs",
    "Mul",
    "Muls",
    "Maximum",
    "Minimum",
    "InplaceZero",
    "InplaceOne",
    "InplaceCopy",
    "Relu",
}
"""Functions whose expression means the same on int32."""

_TANH = "(1 - 2 / (tile.exp(({0}) * 2) + 1))"
_SIGMOID = "(1 / (tile.exp(({0}) * -1) + 1))"
_GELU = f"(x * 0.5 * (1 + {_TANH.format('(x + x * x * x * 0.044715) * 0.7978845608028654')}))"

ELEMENTS: dict[str, str] = {
    "Abs": "tile.abs(x)", "Neg": "x * -1.0", "Relu": "tile.relu(x)", "Exp": "tile.exp(x)", "Sqrt": "tile.sqrt(x)", "Rsqrt": "tile.rsqrt(x)",
    "Reciprocal": "1 / x", "Log": "tile.log(x)", "Log2": "tile.log(x) * 1.4426950408889634", "Log10": "tile.log(x) * 0.4342944819032518",
    "Exp2": "tile.exp(x * 0.6931471805599453)", "Square": "x * x", "Sigmoid": _SIGMOID.format("x"), "Tanh": _TANH.format("x"),
    "Silu": "x * " + _SIGMOID.format("x"), "Swish": "x * " + _SIGMOID.format("x * a"), "FastGelu": "x * " + _SIGMOID.format("x * 1.702"),
    "FastGeluV2": "x * " + _SIGMOID.format("x * 1.702"), "Hardswish": "x * tile.minimum(tile.maximum(x + 3.0, 0.0), 6.0) / 6.0",
    "Hardsigmoid": "tile.minimum(tile.maximum(x + 3.0, 0.0), 6.0) / 6.0", "Softsign": "x / (tile.abs(x) + 1.0)",
    "SquaredRelu": "tile.relu(x) * tile.relu(x)", "Gelu": _GELU, "Cosh": "(tile.exp(x) + tile.exp(x * -1.0)) * 0.5",
    "Sign": "tile.where(x > 0.0, one, tile.where(x < 0.0, minus_one, zero))",
    "LeakyRelu": "tile.where(x > 0.0, x, x * a)", "Threshold": "tile.where(x <= a, fill(b), x)", "ThresholdV2": "tile.where(x <= a, fill(b), x)",
    "Hardtanh": "tile.minimum(tile.maximum(x, a), b)", "ClampMin": "tile.maximum(x, a)", "ClampMax": "tile.minimum(x, a)",
    "ClampMinTensor": "tile.maximum(x, y)", "ClampMaxTensor": "tile.minimum(x, y)", "ClampTensor": "tile.minimum(tile.maximum(x, y), w)",
    "Hardshrink": "tile.where(tile.abs(x) <= a, zero, x)", "Softshrink": "tile.where(tile.abs(x) <= a, zero, tile.where(x > 0.0, x - a, x + a))",
    "Add": "x + y * a", "Adds": "x + a * b", "Sub": "x - y * a", "Subs": "x - a * b", "Mul": "x * y", "Muls": "x * a", "Div": "x / y", "Divs": "x / a",
    "RealDiv": "x / y", "Maximum": "tile.maximum(x, y)", "Minimum": "tile.minimum(x, y)", "Rsub": "y - x * a", "Rsubs": "x * (-b) + a",
    "AddRelu": "tile.relu(x + y * a)", "AddV3": "x * b + a", "SiluMul": "x * " + _SIGMOID.format("x") + " * y",
    "Addcmul": "x + y * w * a", "Addcdiv": "x + y / w * a", "Lerp": "x + w * (y - x)", "Lerps": "x + (y - x) * a",
    "SWhere": "tile.where(x != 0.0, y, w)", "MaskedScale": "x * y * a",
    "PowTensorScalar": "x ** {power}", "Cast": "x", "InplaceCopy": "y", "InplaceZero": "zero", "InplaceOne": "one",
    "InplaceFillScalar": "fill(a)", "InplaceMaskedFillScalar": "tile.where(y != 0.0, fill(a), x)",
    "SigmoidBackward": "x * y * (1 - y)", "TanhBackward": "x * (1 - y * y)", "TanhGrad": "y * (1 - x * x)",
    "ThresholdBackward": "tile.where(y <= a, zero, x)", "LeakyReluBackward": "tile.where(y > 0.0, x, x * a)", "ReluGradV4": "tile.where(y > a, x, zero)",
    "SiluBackward": "x * {s} * (1 + y * (1 - {s}))".format(s=_SIGMOID.format("y")), "HardsigmoidBackward": "tile.where(tile.abs(y) < 3.0, x / 6.0, zero)",
    "HardtanhBackward": "tile.where(y > a, tile.where(y < b, x, zero), zero)", "SqrtBackward": "y / (x * 2.0)",
    "HardshrinkBackward": "tile.where(tile.abs(y) > a, x, zero)", "SoftsignBackward": "x / ((tile.abs(y) + 1.0) * (tile.abs(y) + 1.0))",
    "SoftshrinkBackward": "tile.where(tile.abs(y) > a, x, zero)", "LogSigmoidBackward": "x * " + _SIGMOID.format("y * -1.0"),
}  # fmt: skip
"""Function, without aclnn and Inplace, to its expression. An `Inplace` form of it that the vendor declares has the same."""

COMPARED: dict[str, str] = {
    **{f"{word}Tensor": f"x {sign} y" for word, sign in {"Eq": "==", "Ne": "!=", "Gt": ">", "Ge": ">=", "Lt": "<", "Le": "<="}.items()},
    **{f"{word}Scalar": f"x {sign} a" for word, sign in {"Eq": "==", "Ne": "!=", "Gt": ">", "Ge": ">=", "Lt": "<", "Le": "<="}.items()},
    "LogicalNot": "x == 0.0", "LogicalAnd": "tile.where(x != 0.0, y, zero) != 0.0", "LogicalOr": "tile.where(x != 0.0, one, y) != 0.0",
    "LogicalXor": "tile.where(x != 0.0, one, zero) != tile.where(y != 0.0, one, zero)",
}  # fmt: skip
"""Functions whose result is true or false."""

FOREACH: dict[str, str] = {
    "Abs": "tile.abs(x)", "Neg": "x * -1.0", "Copy": "x", "Sqrt": "tile.sqrt(x)", "Exp": "tile.exp(x)", "Reciprocal": "1 / x", "Sigmoid": _SIGMOID.format("x"),
    "Tanh": _TANH.format("x"), "AddListV2": "x + y * a", "SubListV2": "x - y * a", "MulList": "x * y", "DivList": "x / y", "AddScalarV2": "x + a",
    "SubScalarV2": "x - a", "MulScalarV2": "x * a", "DivScalarV2": "x / a", "AddcmulScalarV2": "x + y * w * a", "AddcdivScalarV2": "x + y / w * a",
    "MaximumList": "tile.maximum(x, y)", "MinimumList": "tile.minimum(x, y)", "MaximumScalarV2": "tile.maximum(x, a)", "ZeroInplace": "zero",
    "MinimumScalarV2": "tile.minimum(x, a)", "LerpScalar": "x + (y - x) * a", "LerpList": "x + w * (y - x)",
}  # fmt: skip
"""Functions of lists (without aclnnForeach): one launch for each member."""

GELU_TANH = _GELU

REDUCED = {"ReduceSum": "sum", "Mean": "mean", "Amax": "max", "Amin": "min", "Max": "max", "Min": "min"}
"""Functions that reduce the last or the first axes: what they make of a row."""

_SOFTMAX = """
    for r in tile.tiles(R, TR, depth=2):
        m, s = tile.full((r, 1), -tile.inf), tile.zeros((r, 1))
        for c in tile.tiles(C, TC, depth=2):
            m2 = tile.maximum(m, tile.max({x}, 1))
            s, m = s * tile.exp(m - m2) + tile.sum(tile.exp({x} - m2), 1), m2
        for c in tile.tiles(C, TC, depth=2):
            z[r, c] = """
_GRADIENT = """
    for r in tile.tiles(R, TR, depth=2):
        s = tile.zeros((r, 1))
        for c in tile.tiles(C, TC, depth=2):
            s += tile.sum({sum}, 1)
        for c in tile.tiles(C, TC, depth=2):
            z[r, c] = """

ROWS: dict[str, str] = {
    "Softmax": _SOFTMAX + "{store:tile.exp({x} - m) * (1 / s)}",
    "LogSoftmax": _SOFTMAX + "{store:{x} - m - tile.log(s)}",
    "SoftmaxBackward": _GRADIENT.replace("{sum}", "{x} * {y}") + "{store:{y} * ({x} - s)}",
    "LogSoftmaxBackward": _GRADIENT.replace("{sum}", "{x}") + "{store:{x} - tile.exp({y}) * s}",
}
"""Functions of rows, along the last axis: the loops over tiles, `{x}` a tile that is loaded, `{store:...}` one that is stored."""

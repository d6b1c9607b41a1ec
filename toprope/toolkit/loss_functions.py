"""References of aclnn functions, by torch: activations with their gradients, and losses."""

from __future__ import annotations

from typing import Any

from toprope.toolkit.functions import Values, row
from toprope.toolkit.through_torch import F, T, aten, gradients, put, reduced, tensor, via

# ---- activations ----------------------------------------------------------------------------------------------------------------------

via("Elu EluV2", lambda x, a, s, i: aten.elu(x, a, s, i))
via("EluBackward", lambda g, a, s, i, result, x: aten.elu_backward(g, a, s, i, bool(result), x))
via("Celu", lambda x, alpha: aten.celu(x, alpha))
via("SeluBackward", lambda g, result: aten.elu_backward(g, 1.6732632423543772, 1.0507009873554805, 1, True, result))
via("Hardtanh", lambda x, low, high: aten.hardtanh(x, low, high))
via("HardtanhBackward", lambda g, x, low, high: aten.hardtanh_backward(g, x, low, high))
via("HardsigmoidBackward", lambda g, x: aten.hardsigmoid_backward(g, x))
via("HardswishBackward HardswishBackwardV2", lambda g, x: aten.hardswish_backward(g, x))
via("Hardshrink HardShrink", lambda x, bound: aten.hardshrink(x, bound))
via("HardshrinkBackward", lambda g, x, bound: aten.hardshrink_backward(g, x, bound))
via("Softshrink", lambda x, bound: aten.softshrink(x, bound))
via("SoftshrinkBackward", lambda g, x, bound: aten.softshrink_backward(g, x, bound))
via("Softplus", lambda x, beta, bound: aten.softplus(x, beta, bound))
via("SoftplusBackward", lambda g, x, beta, bound: aten.softplus_backward(g, x, beta, bound))
via("Softsign", lambda x: F.softsign(x))
via("SoftsignBackward", lambda g, x: g / (1 + x.abs()) ** 2)
via("Swish", lambda x, beta: x * T.sigmoid((1 if beta is None else beta) * x))
via(
    "SwishBackward",
    lambda g, x, beta: gradients(lambda t: t * T.sigmoid((1 if beta is None else beta) * t), (x,), g)[0],
)
via("SquaredRelu", lambda x: T.relu(x) ** 2)
via("SiluMul", lambda x, y: F.silu(x) * y)
via("Shrink", lambda x, bound, bias: T.where(x < -bound, x + bias, T.where(x > bound, x - bias, T.zeros_like(x))))
via("ThresholdV2", lambda x, bound, value: F.threshold(x, bound, value))
via("ReluGradV4", lambda g, x, bound: T.where(x > bound, g, T.zeros_like(g)))
via("LogSigmoidBackward", lambda g, x, kept: g * T.sigmoid(-x))
via("MishBackward", lambda g, x: aten.mish_backward(g, x))
via("Prelu", lambda x, w: F.prelu(x, w.reshape(-1)))
via("PreluBackward", lambda g, x, w: gradients(lambda t, s: F.prelu(t, s.reshape(-1)), (x, w), g), outs=2)
via("Glu", lambda x, dim: aten.glu(x, dim))
via("GluBackward", lambda g, x, dim: aten.glu_backward(g, x, dim))
via("FastGeluBackward", lambda g, x: gradients(lambda t: t * T.sigmoid(1.702 * t), (x,), g)[0])
via("FastGeluV2", lambda x: x * T.sigmoid(1.702 * x))


def _log_sigmoid(v: Values) -> None:
    x = tensor(v[0])
    put(v[1], F.logsigmoid(x))
    if v[2] is not None and v[2].shape == v[0].shape:
        put(v[2], T.exp(-x.abs()))


def _swiglu(x: Any, dim: int) -> Any:
    a, b = x.chunk(2, dim)
    return F.silu(a) * b


def _geglu(x: Any, dim: int, approximate: int, left: bool) -> tuple[Any, Any]:
    a, b = x.chunk(2, dim)
    a, b = (b, a) if left else (a, b)
    gate = F.gelu(b, approximate="tanh" if approximate else "none")
    return a * gate, gate


row("LogSigmoidForward", _log_sigmoid)
via("SwiGlu", _swiglu)
via("SwiGluGrad", lambda g, x, dim: gradients(lambda t: _swiglu(t, dim), (x,), g)[0])
via("GeGluV3", _geglu, outs=2)
via("GeGlu", lambda x, dim, approximate: _geglu(x, dim, approximate, False), outs=2)
via(
    "GeGluV3Backward",
    lambda g, x, gelu, dim, how, left: gradients(lambda t: _geglu(t, dim, how, bool(left))[0], (x,), g)[0],
)
via("GeGluBackward", lambda g, x, gelu, dim, how: gradients(lambda t: _geglu(t, dim, how, False)[0], (x,), g)[0])
via("GeluMul", lambda x, how: (lambda a, b: F.gelu(a, approximate=how or "none") * b)(*x.chunk(2, -1)))


def _masked_softmax(x: Any, mask: Any, scale: float, triangle: Any) -> Any:
    hidden = T.ones(x.shape[-2:], dtype=T.bool).triu(1) if triangle else mask
    scaled = x * scale
    return T.softmax(scaled if hidden is None else scaled.masked_fill(hidden.bool(), -10000.0), -1)


def _masked_softmax_backward(g: Any, y: Any, mask: Any, scale: float, triangle: Any) -> Any:
    hidden = T.ones(y.shape[-2:], dtype=T.bool).triu(1) if triangle else mask
    made = aten._softmax_backward_data(g, y, -1, T.float32) * scale
    return made if hidden is None else made.masked_fill(hidden.bool(), 0)


via("ScaledMaskedSoftmax", _masked_softmax)
via("ScaledMaskedSoftmaxBackward", _masked_softmax_backward)
via("SoftmaxGrad", lambda y, g: aten._softmax_backward_data(g, y, -1, T.float32))

# ---- losses ---------------------------------------------------------------------------------------------------------------------------

_FLOAT_LOSSES: dict[str, Any] = {
    "SmoothL1Loss": lambda x, y, how, beta: aten.smooth_l1_loss(x, y, how, beta),
    "SmoothL1LossBackward": lambda g, x, y, how, beta: aten.smooth_l1_loss_backward(g, x, y, how, beta),
    "SoftMarginLoss": lambda x, y, how: aten.soft_margin_loss(x, y, how),
    "SoftMarginLossBackward": lambda g, x, y, how: aten.soft_margin_loss_backward(g, x, y, how),
    "L1LossBackward": lambda g, x, y, how: gradients(lambda t: reduced((t - y).abs(), how), (x,), g)[0],
    "BinaryCrossEntropy": lambda x, y, w, how: aten.binary_cross_entropy(x, y, w, how),
    "BinaryCrossEntropyBackward": lambda g, x, y, w, how: aten.binary_cross_entropy_backward(g, x, y, w, how),
    "BinaryCrossEntropyWithLogits": lambda x, y, w, pos, how: aten.binary_cross_entropy_with_logits(x, y, w, pos, how),
    "KlDiv": lambda x, y, how, log: aten.kl_div(x, y, how, log_target=bool(log)),
}  # fmt: skip
for _name, _compute in _FLOAT_LOSSES.items():
    via(_name, _compute)


def _logits(x: Any, y: Any, w: Any, pos: Any, how: int) -> Any:
    return aten.binary_cross_entropy_with_logits(x, y, w, pos, how)


def _divergence(x: Any, y: Any, how: int, log: Any) -> Any:
    return aten.kl_div(x, y, how, log_target=bool(log))


via(
    "BinaryCrossEntropyWithLogitsBackward",
    lambda g, x, y, w, p, how: gradients(lambda t: _logits(t, y, w, p, how), (x,), g)[0],
)
via(
    "BinaryCrossEntropyWithLogitsTargetBackward",
    lambda g, x, y, w, p, how: gradients(lambda t: _logits(x, t, w, p, how), (y,), g)[0],
)
via("KlDivBackward", lambda g, x, y, how, log: gradients(lambda t: _divergence(t, y, how, log), (x,), g)[0])
via("KlDivTargetBackward", lambda g, x, y, how, log: gradients(lambda t: _divergence(x, t, how, log), (y,), g)[0])
via("NLLLoss2d", lambda x, y, w, how, ignored: aten.nll_loss2d_forward(x, y.long(), w, how, ignored), outs=2)
via(
    "NLLLoss2dBackward",
    lambda g, x, y, w, how, ignored, total: aten.nll_loss2d_backward(g, x, y.long(), w, how, ignored, total),
)
via("MultilabelMarginLoss", lambda x, y, how: aten.multilabel_margin_loss_forward(x, y.long(), how), outs=2)


def _cross_entropy(v: Values) -> None:
    x, y, w = tensor(v[0]), tensor(v[1]).long(), tensor(v[2])
    log = T.log_softmax(x, -1)
    put(v[8], F.nll_loss(log, y, w, ignore_index=v[4], reduction=v[3]) if not v[5] else F.cross_entropy(
        x, y, w, ignore_index=v[4], reduction=v[3], label_smoothing=v[5]))  # fmt: skip
    put(v[9], log)
    if v[7]:
        put(v[11], T.logsumexp(x, -1))


def _cross_entropy_grad(
    g: Any, log: Any, y: Any, w: Any, gz: Any, lse: Any, how: str, ignored: int, smooth: float, scale: float
) -> Any:
    def forward(t: Any) -> Any:  # the logarithms are logits too: their sum of exponents is 1
        return F.cross_entropy(t, y.long(), w, ignore_index=ignored, reduction=how, label_smoothing=smooth)

    return gradients(forward, (log,), g)[0]


row("CrossEntropyLoss", _cross_entropy)
via("CrossEntropyLossGrad", _cross_entropy_grad)


def _ctc(v: Values) -> None:
    """Logarithms of the path probabilities in a table as wide as torch makes it, the rest of a wider one is left alone."""
    loss, alpha = aten._ctc_loss(tensor(v[0]), tensor(v[1]).long(), v[2], v[3], v[4], bool(v[5]))
    put(v[6], loss)
    put(v[7][tuple(slice(0, n) for n in alpha.shape)], alpha)


def _ctc_backward(
    g: Any, x: Any, y: Any, lengths: Any, widths: Any, loss: Any, alpha: Any, blank: int, zero: Any
) -> Any:
    loss, alpha = aten._ctc_loss(x, y.long(), lengths, widths, blank, False)
    return aten._ctc_loss_backward(g, x, y.long(), lengths, widths, loss, alpha, blank, bool(zero))


row("CtcLoss", _ctc)
via("CtcLossBackward", _ctc_backward)
via(
    "GaussianNllLoss",
    lambda x, y, var, full, eps, how: F.gaussian_nll_loss(x, y, var, full=bool(full), eps=eps, reduction=how),
)

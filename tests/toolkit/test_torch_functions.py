"""References by torch against torch's own functions and gradients: the order of arguments, options, what is in place, shapes that hang on data."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from toprope.errors import BadInput
from toprope.toolkit.plans import FUNCTIONS

torch = pytest.importorskip("torch")
F = torch.nn.functional


def made(*shape: int, kind: Any = torch.float32, seed: int = 0) -> Any:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))) * 2).to(kind)


def call(name: str, values: list[Any], *shapes: Any, kind: Any = np.float32) -> Any:
    """Call a function with tensors as arrays and fresh outputs of the given shapes where the values have `...`."""
    outs = [np.zeros(tuple(s), kind if not isinstance(kind, list) else kind[n]) for n, s in enumerate(shapes)]
    left = iter(outs)
    given = [next(left) if v is ... else v.detach().numpy() if hasattr(v, "detach") else v for v in values]
    FUNCTIONS[f"aclnn{name}"](given)
    return outs[0] if len(outs) == 1 else outs


def agree(actual: Any, wanted: Any, rough: float = 2e-5) -> None:
    gold = wanted.detach().numpy() if hasattr(wanted, "detach") else np.asarray(wanted)
    assert actual.shape == gold.shape
    np.testing.assert_allclose(actual.astype(np.float64), gold.astype(np.float64), rtol=rough, atol=rough)


def slopes(function: Any, inputs: list[Any]) -> tuple[Any, Any, tuple[Any, ...]]:
    """The result of a function, a gradient from above, and the gradients of its inputs."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    result = function(*leaves)
    g = made(*result.shape, seed=9)
    return result, g, torch.autograd.grad(result, leaves, g)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolution_and_its_gradient(rank: int, transposed: bool) -> None:
    x, b = made(2, 4, *(7,) * rank), made(6)
    w = made(4, 3, *(3,) * rank) if transposed else made(6, 2, *(3,) * rank)
    name = f"conv{'_transpose' if transposed else ''}{rank}d"
    options = {"stride": 2, "padding": 1, "groups": 2, **({"output_padding": 1} if transposed else {"dilation": 1})}
    result, g, wanted = slopes(lambda *t: getattr(F, name)(*t, **options), [x, w, b])
    numbers = [[2] * rank, [1] * rank, [1] * rank, transposed, [int(transposed)] * rank, 2]
    agree(call("Convolution", [x, w, b, *numbers, ..., 0], result.shape), result, 1e-4)
    outs = call(
        "ConvolutionBackward", [g, x, w, [6], *numbers, [True] * 3, 0, ..., ..., ...], x.shape, w.shape, b.shape
    )
    for out, gold in zip(outs, wanted, strict=True):
        agree(out, gold, 1e-3)
    only = call("ConvolutionBackward", [g, x, w, [6], *numbers, [False, True, False], 0, None, ..., None], w.shape)
    agree(only, wanted[1], 1e-3)


def test_pooling_and_its_gradient() -> None:
    x = made(2, 3, 8, 9)
    window = [[3, 2], [2, 2], [1, 1], [1, 1], True]
    result, g, (wanted,) = slopes(lambda t: F.max_pool2d(t, [3, 2], [2, 2], [1, 1], 1, True), [x])
    out, at = call(
        "MaxPool2dWithIndices", [x, *window, ..., ...], result.shape, result.shape, kind=[np.float32, np.int64]
    )
    agree(out, result)
    agree(call("MaxPool2dWithIndicesBackward", [g, x, torch.from_numpy(at), *window, ...], x.shape), wanted)
    mask = np.zeros((2, 3, 6, 96), np.int8)
    agree(call("MaxPool2dWithMask", [x, *window, ..., mask], result.shape), result)
    agree(call("MaxPool2dWithMaskBackward", [g, x, mask, *window, ...], x.shape), wanted)
    result, g, (wanted,) = slopes(lambda t: F.avg_pool2d(t, 3, 2, 1, False, False, 5), [x])
    average = [[3, 3], [2, 2], [1, 1], False, False, 5, 0]
    agree(call("AvgPool2d", [x, *average, ...], result.shape), result)
    agree(call("AvgPool2dBackward", [g, x, *average, ...], x.shape), wanted)
    for size in ([1, 1], [3, 4]):
        result, g, (wanted,) = slopes(lambda t, size=size: F.adaptive_avg_pool2d(t, size), [x])
        agree(call("AdaptiveAvgPool2d", [x, size, ...], result.shape), result)
        agree(call("AdaptiveAvgPool2dBackward", [g, x, ...], x.shape), wanted)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_changes_its_statistics_only_in_training(training: bool) -> None:
    x, w, b, mean, var = made(4, 3, 5, 5), made(3), made(3), made(3), made(3, seed=1).abs() + 0.5
    gold_mean, gold_var = mean.clone(), var.clone()
    result, g, wanted = slopes(
        lambda *t: F.batch_norm(t[0], gold_mean.clone(), gold_var.clone(), t[1], t[2], training, 0.2, 1e-3), [x, w, b]
    )
    F.batch_norm(x, gold_mean, gold_var, w, b, training, 0.2, 1e-3)
    state = [mean.numpy().copy(), var.numpy().copy()]
    out, save_mean, save_inverse = call(
        "BatchNorm", [x, w, b, *state, training, 0.2, 1e-3, ..., ..., ...], x.shape, [3], [3]
    )
    agree(out, result), agree(state[0], gold_mean), agree(state[1], gold_var)
    outs = call(
        "BatchNormBackward",
        [g, x, w, *state, save_mean, save_inverse, training, 1e-3, [True] * 3, ..., ..., ...],
        x.shape,
        [3],
        [3],
    )
    for made_, gold in zip(outs, wanted, strict=True):
        agree(made_, gold, 1e-4)


def test_group_norm_and_its_gradient() -> None:
    x, w, b = made(2, 6, 4, 5), made(6), made(6)
    result, g, wanted = slopes(lambda *t: F.group_norm(t[0], 3, t[1], t[2], 1e-5), [x, w, b])
    out, mean, rstd = call("GroupNorm", [x, w, b, 2, 6, 20, 3, 1e-5, ..., ..., ...], x.shape, [2, 3], [2, 3])
    agree(out, result)
    outs = call(
        "GroupNormBackward",
        [g, x, torch.from_numpy(mean), torch.from_numpy(rstd), w, 2, 6, 20, 3, [True] * 3, ..., ..., ...],
        x.shape,
        [6],
        [6],
    )
    for made_, gold in zip(outs, wanted, strict=True):
        agree(made_, gold, 1e-4)


RESIZED = {
    "Linear1d": ("linear", 1, True), "Bilinear2d": ("bilinear", 2, True), "Trilinear3d": ("trilinear", 3, True), "Bicubic2d": ("bicubic", 2, True),
    "Nearest1d": ("nearest", 1, False), "Nearest2d": ("nearest", 2, False), "Nearest3d": ("nearest", 3, False),
    "NearestExact1d": ("nearest-exact", 1, False), "NearestExact2d": ("nearest-exact", 2, False), "NearestExact3d": ("nearest-exact", 3, False),
}  # fmt: skip


@pytest.mark.parametrize("name", RESIZED)
def test_resizing_and_its_gradient(name: str) -> None:
    mode, rank, corners = RESIZED[name]
    x, size = made(2, 3, *(5,) * rank), [8] * rank
    result, g, (wanted,) = slopes(
        lambda t: F.interpolate(t, size, mode=mode, align_corners=False if corners else None), [x]
    )
    scales = [0.0] * rank
    head = [False] if corners else []
    forward = [] if name in ("Nearest1d", "Nearest2d") else scales
    agree(call(f"Upsample{name}", [x, size, *head, *forward, ...], result.shape), result)
    agree(call(f"Upsample{name}Backward", [g, size, list(x.shape), *head, *scales, ...], x.shape), wanted, 1e-4)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("way", ["reflection", "replication"])
def test_padding_and_its_gradient(rank: int, way: str) -> None:
    x, pad = made(2, 3, *(6,) * rank), [1, 2] * rank
    result, g, (wanted,) = slopes(
        lambda t: F.pad(t, pad, {"reflection": "reflect", "replication": "replicate"}[way]), [x]
    )
    name = f"{way.capitalize()}Pad{rank}d"
    agree(call(name, [x, pad, ...], result.shape), result)
    agree(call(f"{name}Backward", [g, x, pad, ...], x.shape), wanted)
    agree(call("ConstantPadNd", [x, pad, 1.5, ...], result.shape), F.pad(x, pad, value=1.5))


ACTIVATIONS: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "Elu": (lambda t: F.elu(t, 0.7), [0.7, 1.0, 1.0], []), "Hardtanh": (lambda t: F.hardtanh(t, -0.5, 0.75), [-0.5, 0.75], [-0.5, 0.75]),
    "Softplus": (lambda t: F.softplus(t, 1.5, 20), [1.5, 20.0], [1.5, 20.0]), "Hardshrink": (lambda t: F.hardshrink(t, 0.4), [0.4], [0.4]),
    "Softshrink": (lambda t: F.softshrink(t, 0.4), [0.4], [0.4]), "Glu": (lambda t: F.glu(t, 1), [1], [1]),
    "SwiGlu": (lambda t: F.silu(t.chunk(2, 1)[0]) * t.chunk(2, 1)[1], [1], [1]), "Hardswish": (F.hardswish, [], []), "Hardsigmoid": (F.hardsigmoid, [], []),
    "Mish": (F.mish, [], []),
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_and_their_gradients(name: str) -> None:
    function, forward, backward = ACTIVATIONS[name]
    x = made(4, 6)
    result, g, (wanted,) = slopes(function, [x])
    agree(call(name, [x, *forward, ...], result.shape), result)
    if name == "Elu":
        agree(call("EluBackward", [g, 0.7, 1.0, 1.0, False, x, ...], x.shape), wanted)
    else:
        agree(call(f"{name}{'Grad' if name == 'SwiGlu' else 'Backward'}", [g, x, *backward, ...], x.shape), wanted)
    if f"aclnnInplace{name}" in FUNCTIONS and result.shape == x.shape:
        place = x.numpy().copy()
        FUNCTIONS[f"aclnnInplace{name}"]([place, *forward])
        agree(place, result)


@pytest.mark.parametrize("how", [0, 1, 2])
def test_losses_and_their_gradients(how: int) -> None:
    word = ("none", "mean", "sum")[how]
    x, y = made(4, 5), made(4, 5, seed=3)
    p, q = x.sigmoid(), y.sigmoid()
    for name, function, given, more in (
        ("SmoothL1Loss", lambda t: F.smooth_l1_loss(t, y, reduction=word, beta=0.5), [x, y], [how, 0.5]),
        ("SoftMarginLoss", lambda t: F.soft_margin_loss(t, y.sign(), reduction=word), [x, y.sign()], [how]),
        ("BinaryCrossEntropy", lambda t: F.binary_cross_entropy(t, q, reduction=word), [p, q], [None, how]),
        (
            "BinaryCrossEntropyWithLogits",
            lambda t: F.binary_cross_entropy_with_logits(t, q, pos_weight=q, reduction=word),
            [x, q],
            [None, q, how],
        ),
        ("KlDiv", lambda t: F.kl_div(t, q, reduction=word), [p, q], [how, False]),
    ):
        result, g, (wanted,) = slopes(function, [given[0]])
        agree(call(name, [*given, *more, ...], result.shape), result)
        agree(call(f"{name}Backward", [g, *given, *more, ...], x.shape), wanted)


@pytest.mark.parametrize("layout", ["BNSD", "BSH", "SBH", "BSND"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("others", [4, 2])
def test_attention_and_its_gradient(layout: str, causal: bool, others: int) -> None:
    q, k, v = made(2, 4, 6, 8), made(2, others, 6, 8), made(2, others, 6, 8, seed=5)
    wide = lambda t: t.repeat_interleave(4 // others, 1)  # noqa: E731
    result, g, wanted = slopes(
        lambda a, b, c: F.scaled_dot_product_attention(a, wide(b), wide(c), is_causal=causal), [q, k, v]
    )

    def laid(t: Any) -> Any:
        if layout == "BNSD":
            return t
        if layout == "BSND":
            return t.transpose(1, 2).contiguous()
        return t.transpose(1, 2).flatten(2) if layout == "BSH" else t.permute(2, 0, 1, 3).flatten(2)

    mask = torch.ones(6, 6).triu(1).bool() if causal else None
    options = [[], 8**-0.5, 1.0, 2147483647, 2147483647, 4, layout, 0, 0]
    inputs = [laid(t) for t in (q, k, v)]
    rows = (2, 4, 6, 8)
    out = call(
        "FlashAttentionScore",
        [*inputs, None, None, None, mask, *options, ..., ..., None, ...],
        rows,
        rows,
        laid(result).shape,
    )
    agree(out[2], laid(result), 1e-4)
    again = [
        *inputs,
        laid(g),
        None,
        None,
        None,
        mask,
        torch.from_numpy(out[0]),
        torch.from_numpy(out[1]),
        None,
        laid(result),
    ]
    outs = call("FlashAttentionScoreGrad", [*again, *options, ..., ..., ..., None], *(t.shape for t in inputs))
    for made_, gold in zip(outs, wanted, strict=True):
        agree(made_, laid(gold), 1e-4)
    with pytest.raises(BadInput, match="keepprob has no reference"):
        call(
            "FlashAttentionScore",
            [*inputs, None, None, None, mask, [], 0.3, 0.9, *options[3:], ..., ..., None, ...],
            rows,
            rows,
            laid(result).shape,
        )


def test_random_numbers_hang_on_seed_and_offset_alone() -> None:
    drawn = {}
    for seed, offset in ((1, 0), (1, 0), (1, 8), (2, 0)):
        x = np.zeros(20000, np.float32)
        FUNCTIONS["aclnnInplaceNormal"]([x, 1.0, 2.0, seed, offset])
        assert abs(x.mean() - 1) < 0.05 and abs(x.std() - 2) < 0.05
        assert np.array_equal(x, drawn.setdefault((seed, offset), x))
    assert len({v.tobytes() for v in drawn.values()}) == 3
    for kind in (np.float32, np.float16, ml_dtypes.bfloat16):
        y = np.zeros(50000, kind)
        FUNCTIONS["aclnnInplaceUniform"]([y, 0.0, 1.0, 3, 0])
        assert float(y.min()) >= 0 and float(y.max()) < 1 and abs(float(y.astype(np.float32).mean()) - 0.5) < 0.01
    order = np.zeros(100, np.int64)
    FUNCTIONS["aclnnRandperm"]([100, 5, 0, order])
    assert sorted(order.tolist()) == list(range(100)) and order.tolist() != list(range(100))
    flips = np.zeros(20000, np.float32)
    FUNCTIONS["aclnnInplaceBernoulli"]([flips, 0.25, 7, 0])
    assert set(np.unique(flips)) == {0, 1} and abs(flips.mean() - 0.25) < 0.02


def test_dropout_and_its_mask() -> None:
    x, mask = np.ones(4096, np.float32), np.zeros(512, np.uint8)
    FUNCTIONS["aclnnDropoutGenMask"]([[4096], 0.25, 11, 0, mask])
    out = np.zeros_like(x)
    FUNCTIONS["aclnnDropoutDoMask"]([x, mask, 0.25, out])
    assert set(np.unique(out)) == {np.float32(0), np.float32(4 / 3)} and abs((out > 0).mean() - 0.75) < 0.03
    flips = np.zeros(4096, np.float32)
    FUNCTIONS["aclnnInplaceBernoulli"]([flips, 0.75, 11, 0])
    assert np.array_equal(flips > 0, out > 0)  # dropout in place draws the same numbers


def test_shapes_that_hang_on_data() -> None:
    x = np.float32([[0, 3, 0], [1, 0, 3]])
    place = np.zeros((6, 2), np.int64)
    assert FUNCTIONS["aclnnNonzero"]([x, place]) == {1: (3, 2)} and place.reshape(-1)[:6].tolist() == [0, 1, 1, 0, 1, 2]
    chosen = np.zeros(6, np.float32)
    assert FUNCTIONS["aclnnMaskedSelect"]([x, np.array([True, True, False]), chosen]) == {2: (4,)} and chosen[
        :4
    ].tolist() == [0, 3, 1, 0]
    values, inverse, counts = np.zeros(6, np.float32), np.zeros((2, 3), np.int64), np.zeros(6, np.int64)
    assert FUNCTIONS["aclnnUnique2"]([x, True, True, True, values, inverse, counts]) == {4: (3,), 5: (2, 3), 6: (3,)}
    assert (
        values[:3].tolist() == [0, 1, 3]
        and counts[:3].tolist() == [3, 1, 2]
        and inverse.tolist() == [[0, 2, 0], [1, 0, 2]]
    )


@pytest.mark.parametrize("nesterov", [False, True])
def test_a_fused_optimiser_step(nesterov: bool) -> None:
    p = torch.nn.Parameter(made(7))
    optimiser = torch.optim.SGD([p], lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=nesterov)
    place, kept = p.detach().numpy().copy(), np.zeros(7, np.float32)
    for step in range(3):
        g = made(7, seed=step + 1)
        p.grad = g.clone()
        optimiser.step()
        FUNCTIONS["aclnnFusedSgd"](
            [[place], [g.numpy().copy()], [kept], None, 0.01, 0.9, 0.1, 0.0, nesterov, False, step == 0]
        )
    agree(place, p)


def test_whole_powers_rounded_numbers_and_bounds() -> None:
    x, y = np.int64([2, -1, 1, 3, -1]), np.int64([-1, -3, -2, 2, -2])
    agree(
        call("PowTensorTensor", [torch.from_numpy(x), torch.from_numpy(y), ...], [5], kind=np.int64),
        torch.pow(torch.from_numpy(x), torch.from_numpy(y)),
    )
    short = torch.tensor([0.1, 0.1001], dtype=torch.float16)
    agree(call("LtScalar", [short, 0.1, ...], [2], kind=bool), torch.lt(short, 0.1))
    few = made(3)
    assert np.isinf(call("VarCorrection", [few, [0], 7, False, ...], []))


def test_tokens_go_to_experts_and_back() -> None:
    tokens, at, chances = (
        made(5, 4),
        torch.tensor([[1, 0], [2, 1], [0, 2], [1, 2], [0, 1]], dtype=torch.int32),
        made(5, 2).softmax(-1),
    )
    moved, places = call(
        "MoeTokenPermute", [tokens, at, 0, False, ..., ...], (10, 4), (10,), kind=[np.float32, np.int32]
    )
    order = at.flatten().argsort(stable=True)
    agree(moved, tokens[order // 2])
    back = call(
        "MoeTokenUnpermute", [torch.from_numpy(moved), torch.from_numpy(places), chances, False, None, ...], (5, 4)
    )
    agree(back, tokens * chances.sum(1, keepdim=True))

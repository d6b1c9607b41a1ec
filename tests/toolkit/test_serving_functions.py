"""References that inference calls, against formulas of their own: quantisation, paged caches, rotary positions, grouped products, cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toprope.errors import BadInput
from toprope.toolkit.plans import FUNCTIONS

torch = pytest.importorskip("torch")
F32 = np.float32


def numbers(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).normal(0, 2, shape).astype(F32)


def test_quantisation_rounds_to_even_and_saturates() -> None:
    x, out = F32([[0.5, 1.5, -2.5, 400, -400, 3.2]]), np.zeros((1, 6), np.int8)
    FUNCTIONS["aclnnAscendQuant"]([x, F32([1]), None, False, "round", 2, out])
    assert out.tolist() == [[0, 2, -2, 127, -128, 3]]
    FUNCTIONS["aclnnAscendQuant"]([x, F32([1]), None, False, "ceil", 2, out])
    assert out.tolist() == [[1, 2, -2, 127, -128, 4]]
    y, place = numbers(1, 3, 4), np.zeros((3, 4), np.uint8)
    scales, zeros = F32([0.1, 0.2, 0.05]), np.int32([128, 100, 7])
    FUNCTIONS["aclnnQuantize"]([y, scales, zeros, 4, 0, place])
    wanted = torch.quantize_per_channel(
        torch.from_numpy(y), torch.from_numpy(scales), torch.from_numpy(zeros), 0, torch.quint8
    ).int_repr()
    assert np.array_equal(place, wanted.numpy())
    with pytest.raises(BadInput, match="quantisation to float32"):
        FUNCTIONS["aclnnAscendQuant"]([x, F32([1]), None, False, "round", 0, np.zeros((1, 6), F32)])


def test_quantisation_by_row_and_back() -> None:
    x, out, scale, again = numbers(2, 5, 64), np.zeros((5, 64), np.int8), np.zeros(5, F32), np.zeros((5, 64), F32)
    x[3] = 0
    FUNCTIONS["aclnnDynamicQuant"]([x, None, out, scale])
    np.testing.assert_allclose(scale, np.abs(x).max(1) / 127, rtol=1e-6)
    assert np.abs(out * scale[:, None] - x).max() <= scale.max() / 2 * 1.001 and not out[3].any()
    FUNCTIONS["aclnnAscendAntiQuant"]([out, F32([0.5]), F32([1]), 0, False, again])
    assert np.array_equal(again, (out.astype(F32) + 1) * F32(0.5))


@pytest.mark.parametrize("channel", [False, True])
def test_quantisation_that_is_only_played(channel: bool) -> None:
    x, out, mask = numbers(3, 4, 6), np.zeros((4, 6), F32), np.zeros((4, 6), bool)
    scale, zero = (F32([0.02, 0.05, 0.1, 0.01]), np.int32([0, 3, -5, 9])) if channel else (F32([0.02]), np.int32([3]))
    name = f"FakeQuantPer{'Channel' if channel else 'Tensor'}AffineCachemask"
    FUNCTIONS[f"aclnn{name}"]([x, scale, zero, 0 if channel else 1.0, -128, 127, out, mask])
    t, s, z = (torch.from_numpy(a) for a in (x, scale, zero))
    if channel:
        wanted = torch.ops.aten.fake_quantize_per_channel_affine_cachemask(t, s, z, 0, -128, 127)
    else:
        wanted = torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(t, 0.02, 3, -128, 127)
    np.testing.assert_allclose(out, wanted[0].numpy(), atol=1e-6)
    assert np.array_equal(mask, wanted[1].numpy()) and not mask.all()


def test_tokens_go_to_the_slots_of_their_pages() -> None:
    key, value = numbers(4, 3, 2, 8), numbers(5, 3, 2, 4)
    keys, values = np.zeros((2, 4, 2, 8), F32), np.zeros((2, 4, 2, 4), F32)
    slots = np.int32([5, -1, 2])
    FUNCTIONS["aclnnScatterPaKvCache"]([key, keys, slots, value, values, None, None, None, "Norm", None, None, None])
    assert (
        np.array_equal(keys[1, 1], key[0]) and np.array_equal(values[0, 2], value[2]) and np.count_nonzero(keys) == 32
    )
    with pytest.raises(BadInput, match="into 8 rows"):
        FUNCTIONS["aclnnScatterPaCache"]([key, keys, np.int32([8, 0, 1]), None, None, None, None])
    with pytest.raises(BadInput, match="PA_NZ"):
        FUNCTIONS["aclnnScatterPaCache"]([key, keys, slots, None, None, None, "PA_NZ"])


@pytest.mark.parametrize("neox", [True, False])
def test_rotary_positions_by_cache(neox: bool) -> None:
    angles = np.outer(np.arange(16), 1 / 10.0 ** np.arange(4)).astype(F32)
    at = np.int64([3, 0, 15])
    q, k = numbers(6, 3, 2 * 10), numbers(7, 3, 10)  # heads of 10, of which 8 turn
    outs = [np.zeros_like(q), np.zeros_like(k)]
    FUNCTIONS["aclnnRopeWithSinCosCache"](
        [at, q, k, np.concatenate((np.cos(angles), np.sin(angles)), -1), None, 10, neox, *outs]
    )
    for x, out in ((q, outs[0]), (k, outs[1])):
        heads, made = x.reshape(3, -1, 10), out.reshape(3, -1, 10)
        pairs = [
            (heads[..., n], heads[..., n + 4]) if neox else (heads[..., 2 * n], heads[..., 2 * n + 1]) for n in range(4)
        ]
        whole = np.stack([a + 1j * b for a, b in pairs], -1) * np.exp(1j * angles[at])[:, None]
        real, imaginary = (made[..., :4], made[..., 4:8]) if neox else (made[..., 0:8:2], made[..., 1:8:2])
        np.testing.assert_allclose(real + 1j * imaginary, whole, atol=1e-5)
        assert np.array_equal(made[..., 8:], heads[..., 8:])


@pytest.mark.parametrize("ends", [True, False])
def test_groups_of_rows_by_a_matrix_each(ends: bool) -> None:
    x, w, out = numbers(8, 9, 5), numbers(9, 3, 5, 4), np.full((10, 4), 7, F32)
    groups = np.int64([2, 6, 9] if ends else [2, 4, 3])
    none: list[Any] = [None] * 6
    FUNCTIONS["aclnnGroupedMatmulV4"](
        [[x], [w], *none, groups, None, None, None, 3, 0, 0 if ends else 1, 0, [out], None, None]
    )
    wanted = np.concatenate((x[:2] @ w[0], x[2:6] @ w[1], x[6:] @ w[2], np.zeros((1, 4), F32)))
    np.testing.assert_allclose(out, wanted, atol=1e-5)
    with pytest.raises(BadInput, match="scale has no reference"):
        FUNCTIONS["aclnnGroupedMatmulV4"](
            [[x], [w], None, [F32([1])], *none[2:], groups, None, None, None, 3, 0, 0, 0, [out], None, None]
        )


def test_a_cell_and_its_gradient() -> None:
    x, h, b1, b2 = numbers(10, 3, 20), numbers(11, 3, 20), numbers(12, 20), numbers(13, 20)
    c = torch.from_numpy(numbers(14, 3, 5)).requires_grad_()
    gates = torch.from_numpy(x + h + b1 + b2).requires_grad_()
    i, f, g, o = gates.chunk(4, 1)
    cy = f.sigmoid() * c + i.sigmoid() * g.tanh()
    hy = o.sigmoid() * cy.tanh()
    outs = [np.zeros((3, 5), F32), np.zeros((3, 5), F32), np.zeros((3, 20), F32)]
    FUNCTIONS["aclnnThnnFusedLstmCell"]([x, h, c.detach().numpy(), b1, b2, *outs])
    np.testing.assert_allclose(outs[0], hy.detach().numpy(), atol=1e-6)
    np.testing.assert_allclose(outs[1], cy.detach().numpy(), atol=1e-6)
    gh, gc = numbers(15, 3, 5), numbers(16, 3, 5)
    wanted = torch.autograd.grad((hy, cy), (gates, c), (torch.from_numpy(gh), torch.from_numpy(gc)))
    made = [np.zeros((3, 20), F32), np.zeros((3, 5), F32), np.zeros(20, F32)]
    FUNCTIONS["aclnnThnnFusedLstmCellBackward"]([gh, gc, c.detach().numpy(), outs[1], outs[2], True, *made])
    np.testing.assert_allclose(made[0], wanted[0].numpy(), atol=1e-5)
    np.testing.assert_allclose(made[1], wanted[1].numpy(), atol=1e-5)
    np.testing.assert_allclose(made[2], wanted[0].sum(0).numpy(), atol=1e-5)


def test_the_best_experts_of_the_best_groups() -> None:
    x, bias = numbers(17, 4, 16), numbers(18, 16)
    y, at, scores = np.zeros((4, 3), F32), np.zeros((4, 3), np.int32), np.zeros((4, 16), F32)
    FUNCTIONS["aclnnMoeGatingTopK"]([x, bias, 3, 2, 4, 1, 1, 1, True, 2.5, 1e-20, y, at, scores])
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(-x)), rtol=1e-5)
    groups = np.sort((scores + bias).reshape(4, 4, 4), -1)[..., -2:].sum(-1)
    for n in range(4):
        kept = {g for g in np.argsort(-groups[n])[:2]}
        assert {int(e) // 4 for e in at[n]} <= kept
        np.testing.assert_allclose(y[n], scores[n, at[n]] / scores[n, at[n]].sum() * 2.5, rtol=1e-5)

"""moe_gating_topk: the rules it checks, ties, and cores that share a row find what one core finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toprope import ops
from toprope.errors import TopropeError

X = np.zeros((4, 64), np.float32)
REFUSED = [
    ((X.astype(np.int32),), {}, "x DT_INT32"),
    ((X[0],), {}, "(rows, experts)"),
    ((X, np.zeros(64, np.float16)), {}, "bias DT_FLOAT16"),
    ((X, np.zeros((64, 1), np.float32)), {}, "float32 of shape (64,)"),
    ((X, np.zeros(63, np.float32)), {}, "one per expert"),
    ((X,), {"k": 0}, "k is 1 to 32"),
    ((X,), {"k": 33}, "k is 1 to 32"),
    ((X,), {"k": 17, "group_count": 4}, "k is 1 to 16"),
    ((X,), {"group_count": 5}, "divides the experts"),
    ((X,), {"group_count": 4, "k_group": 5}, "k_group"),
    ((X,), {"norm_type": 2}, "1 sigmoid"),
    ((X[:, :8],), {"group_count": 8, "group_select_mode": 1}, "group of one"),
    ((np.zeros((1, 8192), np.float32),), {"group_count": 2}, "neither"),
]


@pytest.mark.parametrize(("inputs", "attributes", "rule"), REFUSED)
def test_a_broken_rule_is_named_at_tiling_time(inputs: tuple[Any, ...], attributes: dict[str, Any], rule: str) -> None:
    with pytest.raises(TopropeError) as refused:
        ops.operator("moe_gating_topk").tiling(
            shapes=[x.shape for x in inputs], dtypes=[x.dtype.name for x in inputs], **attributes
        )
    assert rule in str(refused.value)


@pytest.mark.parametrize("cores", [2, 4, 6, 16])
def test_cores_that_share_a_row_find_what_one_core_finds(cores: int) -> None:
    x = np.random.default_rng(1).integers(0, 40, (5, 1500)).astype(np.float32)  # many ties, also between cores
    operator = ops.operator("moe_gating_topk")
    alone, shared = (operator.run(x, k=9, cores_per_row=n) for n in (0, cores))
    for call in (alone, shared):
        assert not [f for f in call.findings if f.severity == "error"]
    numbers = alone.outputs["expert_idx"]
    assert shared.tiling.fields["parts"] == cores > alone.tiling.fields["parts"]
    assert (numbers == np.argsort(-x, axis=1, kind="stable")[:, :9]).all()
    assert (shared.outputs["expert_idx"] == numbers).all()
    np.testing.assert_allclose(shared.outputs["y"], alone.outputs["y"], rtol=1e-6)

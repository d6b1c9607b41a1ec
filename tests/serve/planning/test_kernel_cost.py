"""Step times from predicted kernels."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tests.serve.planning.a_chip import ATLAS_A2
from toprope.cli import main as toprope
from toprope.errors import BadChip
from toprope.ops import operator
from toprope.serve.planning.kernel_cost import KernelCost
from toprope.serve.planning.model_shape import PRESETS, ModelShape
from toprope.serve.planning.planner import main
from toprope.serve.planning.step_cost import ChipRates, RooflineCost
from toprope.soc import Soc, load

SMALL = PRESETS["smollm2-135m"]
CHIP = load("ascend910b2")


def test_a_layer_costs_what_its_matrix_products_are_predicted_to_take() -> None:
    one = ModelShape("one", 1, 256, 4, 4, 64, 512, 1024, 2048)
    products = ((256, 768), (256, 256), (256, 1024), (512, 256))

    def launch_us(inner: int, columns: int) -> float:
        a, b = np.zeros((128, inner), np.float16), np.zeros((inner, columns), np.float16)
        return operator("matmul").run(a, b, soc=CHIP, options={"time_only": True}).time_us

    cost = KernelCost(one, ATLAS_A2, CHIP)
    assert cost.layers_s(128) == pytest.approx(1e-6 * sum(launch_us(*product) for product in products))
    assert cost.head_s(128) == pytest.approx(1e-6 * launch_us(256, 1024))


def test_more_tokens_never_take_less_and_the_roofline_is_not_beaten() -> None:
    cost, bound = KernelCost(SMALL, ATLAS_A2, CHIP), RooflineCost(SMALL, ChipRates("peak", 4e14, 1.8e12, 64e9))
    times = [cost.layers_s(tokens) for tokens in (1, 16, 128, 200, 256, 700)]
    assert all(low <= high for low, high in pairwise(times))
    assert all(cost.layers_s(tokens) > bound.layers_s(tokens) for tokens in (1, 128, 700))


def test_a_head_wider_than_one_launch_is_several() -> None:
    wide = ModelShape("wide", 1, 64, 1, 1, 64, 64, 2 * 65408, 2048)
    half = ModelShape("half", 1, 64, 1, 1, 64, 64, 65408, 2048)
    assert KernelCost(wide, ATLAS_A2, CHIP).head_s(8) == pytest.approx(2 * KernelCost(half, ATLAS_A2, CHIP).head_s(8))


def test_other_chips_get_the_roofline(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadChip, match="does not run on ascend310p3"):
        KernelCost(SMALL, ATLAS_A2, load("ascend310p3"))
    quick = ["--model", "smollm2-135m", "--requests", "4", "--max-batch-size", "8", "--policy", "decode-first"]
    assert main([*quick, "--chip", "ascend310p3", "--quiet"]) in (0, 1)
    assert "times: a roofline of ascend310p3" in capsys.readouterr().out
    assert toprope(["plan-serve", *[*quick, "--chip", "ascend310p3", "--cost", "kernels"]]) == 2
    assert toprope(["plan-serve", *[*quick, "--tflops", "3", "--cost", "kernels"]]) == 2
    assert "leave out one of the two" in capsys.readouterr().err


def test_a_memory_that_the_chip_file_lacks_can_be_given(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    number = Soc.number

    def without_memory(self: Soc, name: str) -> float:
        if name == "memory.gm_bytes":
            raise BadChip(f"{self.name} has no {name}")
        return number(self, name)

    monkeypatch.setattr(Soc, "number", without_memory)
    quick = ["--model", "smollm2-135m", "--requests", "4", "--max-batch-size", "8", "--cost", "roofline", "--quiet"]
    assert toprope(["plan-serve", *[*quick, "--chip", "ascend910a"]]) == 2
    assert "memory.gm_bytes" in capsys.readouterr().err
    assert main([*quick, "--chip", "ascend910a", "--memory-gb", "32", "--ttft", "9"]) == 0

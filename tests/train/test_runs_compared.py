"""Two plans side by side, a plan over time, and samples of unequal length."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path

import pytest

from toprope.cli import main
from toprope.errors import BadInput
from toprope.hccl.cluster import Cluster
from toprope.train.balance import Lengths, Sample, balanced, dealt, draw, gain, packed, sample_cost, slowest
from toprope.train.comparison import compare, narrowed
from toprope.train.plan_timeline import perfetto, plan_timeline
from toprope.train.search import Space, search
from toprope.train.shape import TrainModel
from toprope.train.strategy import Batch

CLUSTER, MODEL, BATCH = Cluster.load("atlas-a2", 64), TrainModel.load("gpt-22b"), Batch(64, 2048)
SMALL = Space(micro_batch=(1, 2), recompute=("none",), schedule=("1f1b",), chunks=(1,))


def test_a_comparison_is_the_two_searches_part_by_part() -> None:
    found = compare(CLUSTER, MODEL, BATCH, SMALL, "tp=8,pp=1", "tp=2, pp=4")
    for point, text in ((found.first, "tp=8,pp=1"), (found.second, "tp=2,pp=4")):
        assert point == search(CLUSTER, MODEL, BATCH, narrowed(SMALL, text), keep=1).points[0]
    assert found.settings["tp"] == (8, 2) and found.settings["pp"] == (1, 4)
    for parts, whole in ((found.step, "step"), (found.memory, "memory")):
        for side, point in (("first", found.first), ("second", found.second)):
            assert sum(getattr(d, side) for d in parts) == pytest.approx(getattr(point, whole).total)


@pytest.mark.parametrize("text", ["tp", "tp=x", "width=3", "recompute=some", "offload=maybe", ""])
def test_settings_that_no_layout_has(text: str) -> None:
    with pytest.raises(BadInput, match="no setting of a layout"):
        narrowed(SMALL, text)


def test_a_side_that_does_not_fit_is_named() -> None:
    with pytest.raises(BadInput, match=r"no layout with tp=1,pp=1,zero=1 fits 64 GB; the smallest needs"):
        compare(CLUSTER, MODEL, BATCH, SMALL, "tp=8", "tp=1,pp=1,zero=1")


def test_the_verb_compares(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["plan-train", "gpt-22b", "--sequence", "2048", "--compare", "tp=8", "tp=4"]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["settings"]["tp"] == [8, 4] and len(found["step"]["compute"]) == 2
    assert main(command) == 0
    assert "B less A" in capsys.readouterr().out


def test_a_plan_over_time_has_every_pass_and_what_comes_after() -> None:
    point = search(CLUSTER, MODEL, BATCH, narrowed(SMALL, "tp=2,pp=4"), keep=1).points[0]
    line = plan_timeline(CLUSTER, MODEL, BATCH, point)
    document = perfetto(line, "title")
    slices = [e for e in document["traceEvents"] if e["ph"] == "X"]
    assert len([e for e in slices if e["cat"] in ("forward", "backward")]) == 2 * 4 * line.shown
    for stage in range(4):
        row = sorted((e["ts"], e["ts"] + e["dur"]) for e in slices if e["tid"] == stage + 1)
        assert all(b[0] >= a[1] - 1e-3 for a, b in pairwise(row)), "a stage does one thing at a time"
    after = {n for n, _ in line.after}
    assert "optimiser" in after and after == {
        e["name"].replace(" ", "_") for e in slices if e["cat"] == "after the passes"
    }
    held = [
        e["args"]["GiB"]
        for e in document["traceEvents"]
        if e["ph"] == "C" and e["name"].startswith("activations of stage 0")
    ]
    assert max(held) == pytest.approx(4 * line.each / 2**30) and held[-1] == pytest.approx(0)


def test_the_verb_writes_a_timeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.json"
    assert main(["plan-train", "gpt-22b", "--sequence", "2048", "--tp", "2", "--pp", "4", "--timeline", str(file)]) == 0
    assert json.loads(file.read_text())["displayTimeUnit"] == "ms"


def test_a_distribution_has_its_published_quantiles_and_mean() -> None:
    lengths = Lengths.load("txt360")
    for share, value in lengths.quantiles:
        assert lengths.at(share) == pytest.approx(value)
    assert lengths.mean() == pytest.approx(1003.614, rel=1e-3)
    samples = draw(lengths, MODEL, 4000, 10**6, images=False)
    assert sum(s.tokens < 622 for s in samples) / 4000 == pytest.approx(0.5, abs=0.03)
    with pytest.raises(BadInput, match="no distribution"):
        Lengths.load("nosuch")


def test_lengths_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("[own]\nquantiles = [[0.0, 10], [1.0, 1000]]\n")
    assert Lengths.load(str(file)).at(0.5) == pytest.approx(100)
    file.write_text("[own]\nquantiles = [[0.0, 10], [1.0, 5]]\n")
    with pytest.raises(BadInput, match="must rise"):
        Lengths.load(str(file))


@pytest.mark.parametrize("seed", range(5))
def test_packs_hold_every_sample_once_and_never_too_much(seed: int) -> None:
    chance = random.Random(seed)
    samples = [Sample(chance.randint(1, 1000), i) for i in range(300)]
    packs = packed(samples, 1000)
    assert sorted(s.tiles for pack in packs for s in pack) == list(range(300))
    assert all(sum(s.tokens for s in pack) <= 1000 for pack in packs)
    fewest = sum(s.tokens for s in samples) / 1000
    assert len(packs) <= 1.25 * fewest + 1


@pytest.mark.parametrize("seed", range(5))
def test_balance_is_within_graham_s_bound(seed: int) -> None:
    chance = random.Random(seed)
    costs = [chance.paretovariate(1.2) for _ in range(200)]
    shares = balanced(costs, 8)
    assert sorted(i for share in shares for i in share) == list(range(200))
    best = max(sum(costs) / 8, max(costs))
    assert slowest(costs, shares) <= 4 / 3 * best and slowest(costs, shares) <= slowest(costs, dealt(costs, 8))


def test_what_packing_and_balance_gain() -> None:
    model = TrainModel.load("internvl-110b")
    found = gain(Lengths.load("txt360"), model, 4096, 256, 16, images=True, steps=4)
    assert found.even <= found.balanced < found.packed < found.padded
    assert found.balanced / found.even < 1.02 and found.filled_padded < found.filled_packed
    whole, cost = Sample(1000, 2), sample_cost(model)
    assert cost(whole) > cost(Sample(1000)) > 2 * cost(Sample(500))
    with pytest.raises(BadInput, match="data-parallel cards"):
        gain(Lengths.load("txt360"), model, 4096, 8, 16, images=True)

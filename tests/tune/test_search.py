"""Searching on times that are known: quality against all points, what is never asked, states, stores, regions."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from toprope.errors import BadInput
from toprope.soc import load
from toprope.tune.decision import Selector, decide, header, key
from toprope.tune.measure import Measure
from toprope.tune.search import METHODS, Found, search
from toprope.tune.space import Parameter, Point, Space, ladder, parameter_of
from toprope.tune.state import CLOCK_BY_TEMPERATURE, chip_in, clock_at, state_of
from toprope.tune.store import Store


def space(*sizes: int) -> Space:
    values = ladder(8, 1024)
    return Space(tuple(Parameter(f"p{i}", values, 64) for i in range(len(sizes))))


def valley(*best: int, room: int = 1 << 40) -> tuple[list[Point], object]:
    """Times with one minimum at `best` and a product of the parameters that must fit `room`."""
    asked: list[Point] = []

    def ask(points: Sequence[Point]) -> list[Measure]:
        asked.extend(points)
        out = []
        for point in points:
            if math.prod(point.values()) > room:
                out.append(Measure(reason="does not fit", too_large=True))
            else:
                out.append(
                    Measure(
                        us=10 + sum(abs(math.log2(v / b)) ** 1.5 for v, b in zip(point.values(), best, strict=True))
                    )
                )
        return out

    return asked, ask


@pytest.mark.parametrize("best", [(16, 512), (64, 64), (1024, 8), (96, 192)])
def test_the_model_search_finds_the_best_with_few_questions(best: tuple[int, ...]) -> None:
    asked, ask = valley(*best)
    found = search("model", space(*best), ask)  # type: ignore[arg-type]
    point, us = found.ranked()[0]
    least = min(m.us for m in valley(*best)[1](list(space(*best).points())))  # type: ignore[operator]
    assert us <= least / 0.97 and len(asked) <= 12 and len({key(p) for p in asked}) == len(asked), point


def test_more_questions_come_nearer() -> None:
    _, ask = valley(16, 512, 24)
    few, many = (search("model", space(1, 2, 3), ask, most).ranked()[0][1] for most in (12, 60))  # type: ignore[arg-type]
    assert many <= few and many <= 10.5


def test_points_above_one_that_does_not_fit_are_never_asked() -> None:
    asked, ask = valley(1024, 1024, room=64 * 64)
    found = search("model", space(1, 2), ask, 100)  # type: ignore[arg-type]
    refused = [p for p, m in found.tried if m.too_large]
    assert refused and found.pruned > 20
    for i, point in enumerate(asked):
        before = [r for r in refused if asked.index(r) < i - 1]
        assert not any(all(point[n] >= v for n, v in r.items()) for r in before)


def test_a_space_that_is_too_large_is_thinned_and_says_so() -> None:
    large = space(1, 2, 3, 4, 5, 6)
    asked, ask = valley(64, 64, 64, 64, 64, 128)
    found = search("model", large, ask)  # type: ignore[arg-type]
    assert found.left_out > 0 and found.confidence is None and len(asked) <= 256 and found.ranked()[0][1] < 11
    small = large.thinned(1000)
    assert (
        small.size <= 1000
        and all(p.default in p.values for p in small.parameters)
        and space(1).thinned(1000) == space(1)
    )


def test_coordinate_and_all_points() -> None:
    _, ask = valley(16, 512)
    assert search("coordinate", space(1, 2), ask).ranked()[0][0] == {"p0": 16, "p1": 512}  # type: ignore[arg-type]
    every = search("exhaustive", space(1, 2), ask)  # type: ignore[arg-type]
    assert (
        len(every.tried) == space(1, 2).size
        and every.confidence == 1.0
        and every.ranked()[0][0] == {"p0": 16, "p1": 512}
    )


@pytest.mark.parametrize("method", ["tpe", "evolutionary"])
def test_searches_of_a_library(method: str) -> None:
    pytest.importorskip("optuna")
    _, ask = valley(16, 512)
    assert search(method, space(1, 2), ask, 40).ranked()[0][1] < 14  # type: ignore[arg-type]


def test_an_unknown_search_is_named() -> None:
    with pytest.raises(BadInput, match="there is no search 'luck'"):
        search("luck", space(1), lambda points: [])
    assert set(METHODS) == {"model", "coordinate", "exhaustive", "tpe", "evolutionary"}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("T=8,16", (8, 16)),
        ("T=16,8", (8, 16)),
        ("T=8:33", (8, 12, 16, 24, 32)),
        ("T=1:3", (1, 2, 3)),
        ("T=4:10:3", (4, 7, 10)),
    ],
)
def test_parameters_as_written(text: str, values: tuple[int, ...]) -> None:
    assert parameter_of(text).values == values


@pytest.mark.parametrize(
    "text",
    [
        "T",
        "T=",
        "=8",
        "T=a",
        "T=8:",
        "T=9:8",
        "T=1:2:0",
        "T=1:1000000:1",
        "3x=1",
        "T=1:2:3:4",
        "T=-5,8",
        "T=1:999999999999:1",
        "T=4294967296",
    ],
)
def test_parameters_that_are_none(text: str) -> None:
    with pytest.raises(BadInput, match="--parameter"):
        parameter_of(text)


def test_states_change_what_they_say() -> None:
    chip, less = load("ascend910b1"), chip_in("ascend910b1", {"clock": 0.5, "hbm": 0.25, "cores": 0.5})
    assert less.ghz == chip.ghz / 2 and less.number("hbm.read_tbps") == chip.number("hbm.read_tbps") / 4
    assert (less.aic, less.aiv) == (12, 24) and chip_in("ascend910b1", {}) is chip
    both = chip_in("ascend910b1", {"clock": 0.5, "temperature": 95})
    assert both.ghz == pytest.approx(chip.ghz * 0.5 * 0.9)


@pytest.mark.parametrize(("degrees", "share"), [*CLOCK_BY_TEMPERATURE, (20, 1.0), (90, 0.95), (100, 0.825)])
def test_the_clock_by_temperature(degrees: float, share: float) -> None:
    assert clock_at(degrees) == pytest.approx(share)


@pytest.mark.parametrize(
    "text", ["clock", "clock=0", "clock=1.01", "clock=nan", "moon=1", "temperature=-1", "temperature=106"]
)
def test_states_that_are_none(text: str) -> None:
    with pytest.raises(BadInput, match="--state"):
        state_of(text)
    assert state_of("clock=1,temperature=105,cores=0.01") == {"clock": 1.0, "temperature": 105.0, "cores": 0.01}


def test_a_store_keeps_what_was_finished_and_drops_half_a_line(tmp_path: Path) -> None:
    one = Store("k", tmp_path)
    one.put({"a": 1, "b": 2}, Measure(us=3.5, busy={"V": 0.5}))
    one.put({"a": 2, "b": 2}, Measure(reason="does not fit", too_large=True))
    with one.path.open("a") as out:
        out.write('{"point": {"a": 3')
    again = Store("k", tmp_path)
    assert len(again) == 2 and again.get({"b": 2, "a": 1}) == Measure(us=3.5, busy={"V": 0.5})
    assert again.get({"a": 2, "b": 2}) == Measure(reason="does not fit", too_large=True) and again.get({"a": 3}) is None
    again.put({"a": 3, "b": 2}, Measure(us=1.0))
    assert len(Store("k", tmp_path)) == 3


def test_a_killed_process_loses_no_finished_point(tmp_path: Path) -> None:
    text = f"""
from pathlib import Path
from toprope.tune.store import Store
from toprope.tune.measure import Measure
store, n = Store("k", Path({str(tmp_path)!r})), 0
while True:
    store.put({{"n": n}}, Measure(us=float(n)))
    n += 1
    print(n, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = [int(child.stdout.readline()) for _ in range(20)]
        os.kill(child.pid, signal.SIGKILL)
        said += [int(line) for line in child.stdout.read().splitlines()]
    time.sleep(0)
    kept = Store("k", tmp_path)
    assert len(kept) >= said[-1] >= 20 and all(kept.get({"n": n}) == Measure(us=float(n)) for n in range(said[-1]))


def test_regions_are_cut_where_the_best_changes(tmp_path: Path) -> None:
    shapes = [{"M": m, "N": n} for m in (16, 64, 256, 1024) for n in (128, 4096)]
    small, wide, tall = {"T": 8}, {"T": 64}, {"T": 512}

    def us(shape: Point, point: Point) -> float:
        right = small if shape["M"] <= 64 else wide if shape["N"] > 128 else tall
        return 10.0 if point == right else 20.0

    times = [{key(p): us(s, p) for p in (small, wide, tall)} for s in shapes]
    made = decide(shapes, times, [small, wide, tall])
    assert len(made.regions) == 3 and set(made.reached) == {1.0}
    assert all(made.choose(s) == (small if s["M"] <= 64 else wide if s["N"] > 128 else tall) for s in shapes)
    two = decide(shapes, times, [small, wide, tall], most=2)
    assert len(two.regions) == 2 and min(two.reached) == 0.5
    text = header("demo", made)
    (tmp_path / "h.cpp").write_text(
        text
        + '#include <cstdio>\nint main() { std::printf("%ld %ld %ld", (long)tuned::demo(64, 4096).T, (long)tuned::demo(65, 4096).T, (long)tuned::demo(9999, 128).T); }\n'
    )
    subprocess.run(["g++", "-std=c++17", "-o", tmp_path / "h", tmp_path / "h.cpp"], check=True)
    assert subprocess.run([tmp_path / "h"], capture_output=True, text=True).stdout == "8 64 512"


def test_a_point_without_a_time_is_not_chosen() -> None:
    made = decide(
        [{"N": 1}, {"N": 2}],
        [{key({"T": 1}): 1.0, key({"T": 2}): None}, {key({"T": 1}): 2.0, key({"T": 2}): 1.9}],
        [{"T": 1}, {"T": 2}],
        most=1,
    )
    assert made.regions[0].point == {"T": 1} and made.reached == (1.0, 0.95)


def test_the_selector_does_not_flutter() -> None:
    chosen = Selector({"cool": {"a": 10.0, "b": 11.0}, "warm": {"a": 12.0, "b": 11.6}, "hot": {"a": 15.0, "b": 12.0}})
    assert [chosen.choose(s) for s in ("cool", "warm", "hot", "warm", "cool")] == ["a", "a", "b", "b", "a"]


def test_ranked_leaves_out_what_has_no_time() -> None:
    found = Found([({"a": 1}, Measure(us=2.0)), ({"a": 2}, Measure(reason="x")), ({"a": 3}, Measure(us=1.0))])
    assert found.ranked() == [({"a": 3}, 1.0), ({"a": 1}, 2.0)]

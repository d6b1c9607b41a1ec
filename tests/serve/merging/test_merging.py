"""Request merging: when batches form, who shares one, what happens to errors, load and shutdown."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toprope.errors import BadArgument
from toprope.serve.errors import QueueFull
from toprope.serve.merging.batch_former import BatchFormer
from toprope.serve.merging.merge_size import MergeSize
from toprope.serve.merging.merger import MergerClosed, RequestMerger, WrongOutputCount
from toprope.serve.merging.shape_buckets import ShapeBuckets

WAIT_S = 20.0  # far above anything a passing test needs


class GatedModel:
    """Squares its inputs; each batch waits until the test opens the gate."""

    def __init__(self, *, gated: bool = True) -> None:
        self.batches: list[list[int]] = []
        self.started = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)
        self.gated = gated

    def __call__(self, values: Sequence[int]) -> list[int]:
        self.batches.append(list(values))
        self.started.release()
        if self.gated:
            assert self.gate.acquire(timeout=WAIT_S)
        return [value * value for value in values]


def results(futures: Sequence[Future[int]]) -> list[int]:
    return [future.result(timeout=WAIT_S) for future in futures]


def test_a_batch_forms_at_its_size_or_at_the_delay_of_its_oldest() -> None:
    former: BatchFormer[int] = BatchFormer(1.0)
    assert former.next_due_s() is None and former.pop(3, 0.0) is None
    former.push("a", 1, 10.0)
    former.push("a", 2, 10.5)
    assert former.pop(3, 10.9) is None and former.next_due_s() == 11.0
    assert former.pop(3, 11.0) == [1, 2]
    for item in range(4):
        former.push("a", item, 20.0)
    assert former.pop(3, 20.0) == [0, 1, 2] and len(former) == 1
    assert former.pop(3, 20.0) is None and former.pop(3, 20.0, everything=True) == [3]


def test_due_at_the_time_that_was_announced() -> None:
    former: BatchFormer[int] = BatchFormer(0.7)
    former.push("a", 1, 8.0)
    assert former.next_due_s() == 8.7 and 8.7 - 8.0 < 0.7, "a difference would round to below the delay"
    assert former.pop(3, 8.7) == [1]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 3)), max_size=40), st.integers(1, 5))
def test_batches_keep_order_within_a_key_and_lose_nobody(pushes: list[tuple[str, float]], size: int) -> None:
    former: BatchFormer[tuple[str, int]] = BatchFormer(0.7)
    now, taken = 0.0, []

    def pop_all(*, everything: bool = False) -> None:
        while (batch := former.pop(size, now, everything=everything)) is not None:
            assert 1 <= len(batch) <= size and len({key for key, _ in batch}) == 1
            taken.extend(batch)

    for number, (key, pause) in enumerate(pushes):
        now += pause
        former.push(key, (key, number), now)
        pop_all()
        due = former.next_due_s()
        assert due is None or due > now, "someone overdue was left behind"
    pop_all(everything=True)
    assert sorted(number for _, number in taken) == list(range(len(pushes))) and len(former) == 0
    for key in "abc":
        numbers = [number for k, number in taken if k == key]
        assert numbers == sorted(numbers)


def test_requests_that_arrive_while_the_device_is_busy_share_the_next_batches() -> None:
    model = GatedModel()
    with RequestMerger(model, max_size=4, max_delay_s=0.0) as merger:
        futures = [merger.submit(0)]
        assert model.started.acquire(timeout=WAIT_S)
        futures += [merger.submit(value) for value in range(1, 12)]
        for _ in range(12):
            model.gate.release()
        assert results(futures) == [value * value for value in range(12)]
    sizes = [len(batch) for batch in model.batches]
    assert sum(sizes) == 12 and max(sizes) == 4 and len(sizes) <= 5  # the first ones may go before others arrive
    stats = merger.stats()
    assert stats.requests == 12 and stats.batches == len(sizes) and stats.mean_size == 12 / len(sizes)


def test_a_full_batch_does_not_wait_for_the_delay() -> None:
    with RequestMerger(GatedModel(gated=False), max_size=3, max_delay_s=3600.0) as merger:
        assert results([merger.submit(value) for value in (1, 2, 3)]) == [1, 4, 9]


def test_only_equal_shapes_share_a_batch() -> None:
    buckets = ShapeBuckets([4, 8])
    seen: list[tuple[int, ...]] = []

    def model(batch: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        seen.append(batch.shape)
        return batch.sum(axis=1)

    inputs = [np.ones(n, np.float32) for n in (1, 3, 4, 5, 8, 2)]
    with RequestMerger(buckets.wrap(model), max_size=8, max_delay_s=0.05, bucket=buckets.key) as merger:
        outputs = [future.result(timeout=WAIT_S) for future in [merger.submit(x) for x in inputs]]
    assert outputs == [1, 3, 4, 5, 8, 2]
    assert {shape[1] for shape in seen} == {4, 8}


def test_buckets_pad_trim_and_refuse() -> None:
    buckets = ShapeBuckets([8, 4], fill=-1)
    packed = buckets.pack([np.array([[1, 2]]), np.array([[3, 4], [5, 6]])])
    assert packed.shape == (2, 4, 2) and packed[0, 1:].tolist() == [[-1, -1]] * 3
    per_position = buckets.wrap(lambda batch: batch * 10, trim=True)
    assert [out.tolist() for out in per_position([np.array([1]), np.array([2, 3])])] == [[10], [20, 30]]
    assert buckets.key(np.zeros(3)) == buckets.key(np.zeros(4)) != buckets.key(np.zeros(4, np.float32))
    with pytest.raises(BadArgument, match="exceeds the longest bucket, 8"):
        buckets.key(np.zeros(9))


def test_sizes_adapt_to_the_time_that_batches_take() -> None:
    with RequestMerger(GatedModel(gated=False), max_size=32, max_delay_s=0.0, target_s=3600.0) as merger:
        before = merger._devices[0].size.current
        for _ in range(20):
            merger(1)
        assert merger._devices[0].size.current == 32 > before, "an hour is enough for any batch"


def test_one_bad_input_does_not_fail_its_batch() -> None:
    def model(values: Sequence[int]) -> list[float]:
        return [1 / value for value in values]

    with RequestMerger(model, max_size=4, max_delay_s=3600.0) as merger:
        futures = [merger.submit(value) for value in (1, 2, 0, 4)]
        assert [futures[i].result(timeout=WAIT_S) for i in (0, 1, 3)] == [1.0, 0.5, 0.25]
        with pytest.raises(ZeroDivisionError):
            futures[2].result(timeout=WAIT_S)
    assert merger.stats().failed == 1


def test_a_model_that_miscounts_is_reported() -> None:
    with RequestMerger(lambda values: [0] * 7, max_delay_s=0.0) as merger, pytest.raises(WrongOutputCount):
        merger(1)


def test_two_devices_share_the_work() -> None:
    models = [GatedModel(), GatedModel()]
    with RequestMerger(*models, max_size=2, max_delay_s=0.0) as merger:
        futures = [merger.submit(value) for value in range(8)]
        for model in models:
            assert model.started.acquire(timeout=WAIT_S), "a device stays idle while requests wait"
            for _ in range(10):
                model.gate.release()
        assert results(futures) == [value * value for value in range(8)]
    assert all(model.batches for model in models)


def test_the_device_that_will_be_free_first_gets_the_batch() -> None:
    merger = RequestMerger(GatedModel(gated=False), GatedModel(gated=False), max_delay_s=0.0)
    merger.close()
    slow, fast = merger._devices
    slow.queue.clear()
    fast.queue.clear()
    slow.size.observe(1, 1.0)
    fast.size.observe(1, 0.01)
    assert merger._next_device() is fast
    fast.queue.append([])
    assert merger._next_device() is slow, "its queue has room, the other one's has not"


def test_too_many_waiting_requests_are_refused() -> None:
    model = GatedModel()
    merger = RequestMerger(model, max_size=1, max_delay_s=0.0, max_queued=3)
    first = merger.submit(0)
    assert model.started.acquire(timeout=WAIT_S)
    accepted = []
    with pytest.raises(QueueFull) as refused:
        for value in range(6):  # one more is in the device's queue, three wait
            accepted.append(merger.submit(value))
    assert refused.value.http_status == 429 and 3 <= len(accepted) <= 4
    for _ in range(6):
        model.gate.release()
    assert results([first, *accepted]) == [0, *(value * value for value in range(len(accepted)))]
    merger.close()
    assert merger.stats().refused == 1


def test_a_cancelled_request_is_not_computed() -> None:
    model = GatedModel()
    merger = RequestMerger(model, max_size=1, max_delay_s=0.0)
    running, queued = merger.submit(1), merger.submit(2)
    assert model.started.acquire(timeout=WAIT_S)
    waiting = [merger.submit(value) for value in (3, 4)]
    assert waiting[0].cancel()
    for _ in range(4):
        model.gate.release()
    assert results([running, queued, waiting[1]]) == [1, 4, 16]
    merger.close()
    assert [3] not in model.batches
    with pytest.raises(CancelledError):
        waiting[0].result()


def test_closing_finishes_what_waits_and_refuses_what_comes() -> None:
    merger = RequestMerger(GatedModel(gated=False), max_size=8, max_delay_s=3600.0)
    futures = [merger.submit(value) for value in range(3)]
    merger.close()
    assert results(futures) == [0, 1, 4]
    with pytest.raises(MergerClosed):
        merger.submit(1)
    assert not any(thread.is_alive() for thread in merger._threads)


def test_it_serves_coroutines() -> None:
    async def main() -> list[int]:
        return list(await asyncio.gather(*(merger.call(value) for value in range(20))))

    with RequestMerger(GatedModel(gated=False), max_size=8, max_delay_s=0.001) as merger:
        assert asyncio.run(main()) == [value * value for value in range(20)]


def test_many_threads_get_their_own_answers() -> None:
    wrong: list[int] = []

    def caller(seed: int) -> None:
        for value in range(seed, seed + 50):
            if merger(value) != value * value:
                wrong.append(value)

    with RequestMerger(GatedModel(gated=False), GatedModel(gated=False), max_size=8, max_delay_s=0.0005) as merger:
        threads = [threading.Thread(target=caller, args=(1000 * number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong and merger.stats().requests == 400


def test_merge_size_finds_the_largest_batch_within_its_target() -> None:
    size = MergeSize(64, target_s=0.050)
    sizes = []
    for _ in range(40):
        sizes.append(size.current)
        size.observe(size.current, 0.010 + 0.001 * size.current)  # 40 take exactly 50 ms
    assert abs(size.current - 40) <= 1
    assert all(abs(b - a) <= 4 for a, b in pairwise(sizes)), "bounded steps"
    for _ in range(60):
        size.observe(size.current, 2 * (0.010 + 0.001 * size.current))  # the machine slows down
    assert abs(size.current - 15) <= 2


def test_merge_size_without_a_target_is_fixed_and_with_a_hopeless_one_is_one() -> None:
    fixed, hopeless = MergeSize(16), MergeSize(16, target_s=0.001)
    for _ in range(20):
        fixed.observe(fixed.current, 1.0)
        hopeless.observe(hopeless.current, 1.0)
    assert fixed.current == 16 and hopeless.current == 1
    with pytest.raises(ValueError, match="target_s"):
        MergeSize(4, target_s=0)


def test_senseless_mergers_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one callable"):
        RequestMerger()
    with pytest.raises(ValueError, match="max_queued"):
        RequestMerger(list, max_queued=0)
    with pytest.raises(ValueError, match="max_delay_s"):
        BatchFormer(-1.0)
    with pytest.raises(ValueError, match="positive lengths"):
        ShapeBuckets([])

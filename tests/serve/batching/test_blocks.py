"""The block pool and the KV cache keep their invariants under any sequence of operations."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule

from toprope.serve.batching.block_table import BlockTable
from toprope.serve.batching.blocks import BlockPool
from toprope.serve.batching.kv_cache import KvCache
from toprope.serve.batching.prefix_cache import extend_block_keys
from toprope.serve.batching.request import Request


class PoolMachine(RuleBasedStateMachine):
    """Owners are modelled as a plain list of block ids: one item per reference."""

    owned = Bundle("owned")

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(6)
        self.references: list[int] = []
        self.labels: dict[bytes, int] = {}
        self.order = list(range(6))  # the free queue as the description says it should be

    @precondition(lambda self: len(set(self.references)) < 6)
    @rule(target=owned)
    def allocate(self) -> int:
        block = self.pool.allocate()
        assert block == self.order.pop(0)
        self.labels = {label: other for label, other in self.labels.items() if other != block}
        self.references.append(block)
        return block

    @precondition(lambda self: len(set(self.references)) == 6)
    @rule()
    def allocate_from_nothing(self) -> None:
        with pytest.raises(MemoryError):
            self.pool.allocate()

    @rule(target=owned, label=st.sampled_from([b"a", b"b", b"c", b"d"]))
    def share_found(self, label: bytes) -> int | object:
        block = self.pool.find(label)
        assert block == self.labels.get(label)
        if block is None:
            return multiple()
        self.pool.share(block)
        if block in self.order:
            self.order.remove(block)
        self.references.append(block)
        return block

    @rule(block=owned, label=st.sampled_from([b"a", b"b", b"c", b"d"]))
    def label(self, block: int, label: bytes) -> None:
        if block not in self.references:
            return
        if block in self.labels.values() and self.labels.get(label) != block:
            with pytest.raises(RuntimeError, match="another label"):
                self.pool.label(block, label)
            return
        assert self.pool.label(block, label) == (self.labels.get(label, block) == block)
        self.labels.setdefault(label, block)

    @rule(block=consumes(owned))
    def release(self, block: int) -> None:
        self.pool.release([block])
        self.references.remove(block)
        if block not in self.references:
            self.order.insert(len(self.order) if block in self.labels.values() else 0, block)

    @invariant()
    def agrees_with_the_model(self) -> None:
        self.pool.check()
        assert self.pool.eviction_order() == self.order
        for block in range(6):
            assert self.pool.reference_count(block) == self.references.count(block)
            sole = self.references.count(block) == 1
            assert self.pool.is_writable(block) == (sole and block not in self.labels.values())


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class CacheMachine(RuleBasedStateMachine):
    """Admit, compute, fork, swap and release requests over a two-letter alphabet, so prefixes collide often."""

    device = Bundle("device")
    swapped = Bundle("swapped")

    def __init__(self) -> None:
        super().__init__()
        self.cache = KvCache(8, 2, host_block_count=4, watermark=0.2)
        self.live: list[Request] = []
        self.tables: dict[str, list[int]] = {}
        self.count = 0

    def _new(self, tokens: list[int]) -> Request:
        self.count += 1
        return Request(str(self.count), tokens, 4)

    @rule(target=device, tokens=st.lists(st.integers(0, 1), min_size=1, max_size=9))
    def admit(self, tokens: list[int]) -> Request | object:

        request, free = self._new(tokens), self.cache.device.free_count
        if not self.cache.admit(request, spare_blocks=self.cache.watermark_blocks):
            assert self.cache.device.free_count == free and len(request.block_table) == 0
            assert free - self.cache.blocks_for(len(tokens)) < self.cache.watermark_blocks
            return multiple()
        assert self.cache.device.free_count >= self.cache.watermark_blocks
        assert 0 <= request.computed_tokens < len(tokens), "the last token is always computed, for its logits"
        for index in range(request.computed_tokens // 2, len(request.block_table)):
            assert self.cache.device.is_writable(request.block_table[index])
        self.live.append(request)
        return request

    @rule(request=device, token=st.integers(0, 1))
    def compute(self, request: Request, token: int) -> None:
        if request not in self.live or request.on_host:
            return
        before = request.block_table.tolist()
        if not self.cache.grow(request):
            assert self.cache.device.free_count == 0
            return
        assert request.block_table.tolist()[: len(before)] == before, "block tables are append-only"
        assert self.cache.device.is_writable(request.block_table[request.computed_tokens // 2])
        request.computed_tokens += 1
        self.cache.commit(request)
        if request.computed_tokens == len(request.tokens):
            request.tokens.append(token)

    @rule(target=device, parent=device)
    def fork(self, parent: Request) -> Request | object:

        if parent not in self.live or parent.on_host:
            return multiple()
        child = self._new(list(parent.tokens))
        if not self.cache.fork(parent, child):
            return multiple()
        self.live.append(child)
        assert child.computed_tokens == min(parent.computed_tokens, len(child.tokens) - 1)
        shared, rest = divmod(child.computed_tokens, 2)
        assert child.block_table.tolist()[:shared] == parent.block_table.tolist()[:shared]
        if rest:
            assert child.block_table[shared] != parent.block_table[shared], "both will write here"
        return child

    @rule(target=swapped, request=device)
    def swap_out(self, request: Request) -> Request | object:

        if request not in self.live or request.on_host:
            return multiple()
        if not self.cache.swap_out(request):
            assert not request.on_host
            return multiple()
        assert len(request.block_table) == self.cache.blocks_for(request.computed_tokens)
        return request

    @rule(target=device, request=consumes(swapped))
    def swap_in(self, request: Request) -> Request | object:

        if request in self.live and request.on_host and self.cache.swap_in(request, spare_blocks=0):
            return request
        return multiple()

    @rule(request=device)
    def release(self, request: Request) -> None:
        if request in self.live:
            self.cache.release(request)
            self.live.remove(request)
            assert len(request.block_table) == 0 and request.computed_tokens == 0

    @invariant()
    def every_reference_has_an_owner(self) -> None:
        self.cache.check(self.live)


TestCache = CacheMachine.TestCase
TestCache.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


def test_sharers_of_a_block_that_came_back_from_the_host_each_label_it() -> None:
    cache = KvCache(8, 2, host_block_count=4)
    parent = Request("parent", [0, 1, 0], 4)
    assert cache.admit(parent, spare_blocks=0)
    parent.computed_tokens = 2
    assert cache.swap_out(parent) and cache.swap_in(parent, spare_blocks=0)
    child = Request("child", [0, 1, 0], 4)
    assert cache.fork(parent, child)
    for request in (parent, child):
        request.computed_tokens = 3
        cache.commit(request)
        assert request.labelled_blocks == 1
    assert cache.device.labelled_count == 1 and child.block_table[0] == parent.block_table[0]


def test_a_whole_prompt_hit_copies_the_last_block_and_computes_one_token() -> None:
    cache = KvCache(8, 4)
    first = Request("a", range(8), 4)
    assert cache.admit(first, spare_blocks=0)
    first.computed_tokens = 8
    cache.commit(first)
    second = Request("b", range(8), 4)
    assert cache.admit(second, spare_blocks=0)
    assert second.computed_tokens == 7
    assert second.block_table[0] == first.block_table[0]
    swap_out, copies, swap_in = cache.take_moves()
    assert [tuple(copy) for copy in copies] == [(first.block_table[1], second.block_table[1])]
    assert not swap_out and not swap_in


def test_a_whole_prompt_hit_that_fills_the_cache_recomputes_its_last_block_instead_of_waiting_for_ever() -> None:
    cache = KvCache(2, 4)
    first = Request("a", range(8), 1)
    assert cache.admit(first, spare_blocks=0)
    first.computed_tokens = 8
    cache.commit(first)
    cache.release(first)
    second = Request("b", range(8), 1)
    assert cache.admit(second, spare_blocks=0)
    assert second.computed_tokens == 4
    assert cache.take_moves() == ((), (), ())


def test_the_end_of_a_prompt_is_evicted_before_its_beginning() -> None:
    cache = KvCache(4, 2)
    old = Request("old", [1, 2, 3, 4, 5, 6], 1)
    assert cache.admit(old, spare_blocks=0)
    old.computed_tokens = 6
    cache.commit(old)
    cache.release(old)
    other = Request("other", [9, 9, 9, 9], 1)  # takes the unlabelled block, then one of the three cached ones
    assert cache.admit(other, spare_blocks=0)
    again = Request("again", [1, 2, 3, 4, 5, 6], 1)
    cache.release(other)
    assert cache.admit(again, spare_blocks=0)
    assert again.cached_tokens == 4


def test_what_comes_back_from_the_host_can_be_found_again() -> None:
    cache = KvCache(4, 2, host_block_count=4)
    first = Request("first", [1, 2, 3, 4, 5], 2)
    assert cache.admit(first, spare_blocks=0)
    first.computed_tokens = 4
    cache.commit(first)
    assert cache.swap_out(first)
    other = Request("other", [9] * 8, 1)  # overwrites everything the device held
    assert cache.admit(other, spare_blocks=0)
    cache.release(other)
    assert cache.swap_in(first, spare_blocks=0)
    cache.commit(first)
    second = Request("second", [1, 2, 3, 4, 6], 1)
    cache.release(first)
    assert cache.admit(second, spare_blocks=0)
    assert second.cached_tokens == 4


def test_equal_prompts_with_different_salts_share_nothing() -> None:
    cache = KvCache(8, 2)
    mine = Request("mine", [1, 2, 3, 4], 1, cache_salt=b"tenant 1")
    assert cache.admit(mine, spare_blocks=0)
    mine.computed_tokens = 4
    cache.commit(mine)
    theirs = Request("theirs", [1, 2, 3, 4, 5], 1, cache_salt=b"tenant 2")
    assert cache.admit(theirs, spare_blocks=0)
    assert theirs.cached_tokens == 0


def test_block_keys_depend_on_everything_before_the_block() -> None:
    one: list[bytes] = []
    two: list[bytes] = []
    extend_block_keys(one, [1, 2, 3, 4, 5], 2)
    extend_block_keys(two, [9, 2, 3, 4, 5], 2)
    assert len(one) == len(two) == 2 and one[1] != two[1]
    whole = list(one)
    extend_block_keys(one, [1, 2, 3, 4, 5, 6], 2)
    assert one[:2] == whole and len(one) == 3


def test_releasing_a_block_twice_is_reported() -> None:
    pool = BlockPool(2)
    block = pool.allocate()
    pool.release([block])
    with pytest.raises(RuntimeError, match="more often"):
        pool.release([block])


def test_a_block_table_view_is_read_only_and_survives_growth() -> None:
    table = BlockTable([5])
    view = table.view()
    for block in range(20):
        table.append(block)
    assert view.tolist() == [5] and table.view().tolist() == [5, *range(20)]
    with pytest.raises(ValueError):
        view[0] = 1
    with pytest.raises(IndexError):
        table[21]


@pytest.mark.parametrize("arguments", [{"block_count": 0}, {"block_count": 4, "watermark": 1.0}])
def test_a_senseless_cache_is_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        KvCache(**arguments)  # type: ignore[arg-type]

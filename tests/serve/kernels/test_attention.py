"""The compiled attention against the torch one, and its promise of equal bits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from toprope.serve.batching.batch import BatchEntry  # noqa: E402
from toprope.serve.kernels.attention import AttentionPlan  # noqa: E402
from toprope.serve.kernels.compiled_kernels import CompiledKernels  # noqa: E402
from toprope.serve.kernels.kv_memory import KvMemory  # noqa: E402
from toprope.serve.kernels.torch_kernels import TorchKernels  # noqa: E402
from toprope.serve.model.llama_config import LlamaConfig  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.compiler]
SHAPES = [(1, 1, 16), (4, 4, 64), (9, 3, 64), (8, 1, 32), (10, 2, 80), (7, 1, 128)]  # heads, kv_heads, head


def entry(start: int, count: int, table: list[int]) -> BatchEntry:
    """A request's share of a step; only its numbers matter to attention."""
    request: Any = SimpleNamespace(id="r")
    return BatchEntry(request, start, list(range(count)), np.array(table, dtype=np.int32), True)


class Case:
    """One layer's worth of random queries, keys and values over a cache with some history."""

    def __init__(self, shape: tuple[int, int, int], block_tokens: int, dtype: Any, entries: list[BatchEntry]) -> None:
        self.heads, self.kv_heads, self.head = shape
        self.plan = AttentionPlan.of(entries, block_tokens)
        generator = torch.Generator().manual_seed(1)
        width = (self.heads + 2 * self.kv_heads) * self.head
        self.qkv = torch.randn((len(self.plan.tokens), width), generator=generator).to(dtype)
        self.memory = KvMemory(
            blocks=32, block_tokens=block_tokens, layers=2, kv_heads=self.kv_heads, head=self.head, dtype=dtype
        )
        self.memory.data.copy_(torch.randn(self.memory.data.shape, generator=generator))
        config = LlamaConfig(32, 16, 16, 1, self.heads, self.kv_heads, self.head, 1024)
        self.turns = config.rotations(1024)

    def run(self, kernels: Any) -> tuple[Any, Any]:
        """The attention's result and the memory after it."""
        qkv, memory = self.qkv.clone(), KvMemory.__new__(KvMemory)
        memory.__dict__.update(self.memory.__dict__, data=self.memory.data.clone())
        kernels.store(qkv, self.heads, *self.turns, self.plan, memory, 1)
        out = torch.full((len(qkv), self.heads * self.head), float("nan"), dtype=qkv.dtype)
        kernels.attend(qkv, self.heads, self.plan, memory, 1, out)
        return out, memory.data


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("block_tokens", [16, 64])
def test_equals_torch(shape: tuple[int, int, int], block_tokens: int) -> None:
    blocks = iter(np.random.default_rng(0).permutation(32).tolist())

    def table(tokens: int) -> list[int]:
        return [next(blocks) for _ in range(-(-tokens // block_tokens))]

    entries = [entry(0, 5, table(5)), entry(130, 1, table(131)), entry(15, 1, table(16)), entry(16, 37, table(53))]
    case = Case(shape, block_tokens, torch.float32, entries)
    ours, our_memory = case.run(CompiledKernels(torch.float32))
    theirs, their_memory = case.run(TorchKernels(torch.float32))
    torch.testing.assert_close(our_memory, their_memory, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(ours, theirs, rtol=2e-5, atol=2e-6)


def test_bfloat16_is_as_near_to_float32_as_rounding_allows() -> None:
    case = Case((9, 3, 64), 16, torch.bfloat16, [entry(100, 1, list(range(7))), entry(0, 20, [8, 9])])
    ours, _ = case.run(CompiledKernels(torch.bfloat16))
    theirs, _ = case.run(TorchKernels(torch.bfloat16))
    torch.testing.assert_close(ours.float(), theirs.float(), rtol=2**-7, atol=2**-7)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_has_the_same_bits_in_any_batch_and_any_chunk(shape: tuple[int, int, int], dtype: Any) -> None:
    kernels = CompiledKernels(dtype)
    prompt = Case(shape, 16, dtype, [entry(0, 37, [4, 9, 2])])
    whole, memory = prompt.run(kernels)
    again = Case(shape, 16, dtype, [entry(0, 37, [4, 9, 2]), entry(60, 1, [10, 11, 12, 13]), entry(3, 9, [20])])
    again.qkv[:37] = prompt.qkv
    again.memory.data.copy_(prompt.memory.data)
    assert torch.equal(again.run(kernels)[0][:37], whole), "batch mates change a result"
    for cut in (1, 16, 30):
        tail = Case(shape, 16, dtype, [entry(cut, 37 - cut, [4, 9, 2])])
        tail.qkv = prompt.qkv[cut:].clone()
        tail.memory.data.copy_(memory)
        assert torch.equal(tail.run(kernels)[0], whole[cut:]), f"a prompt cut at {cut} gives other bits"


def test_what_lies_behind_the_last_token_does_not_matter() -> None:
    kernels = CompiledKernels(torch.float32)
    case = Case((4, 2, 16), 16, torch.float32, [entry(20, 1, [3, 5])])
    before, _ = case.run(kernels)
    case.memory.keys(1)[5, :, :, 5:] = 1e30
    case.memory.values(1)[5, :, 5:] = 1e30
    assert torch.equal(case.run(kernels)[0], before)


def test_large_scores_do_not_overflow() -> None:
    case = Case((2, 2, 16), 16, torch.float32, [entry(0, 33, [0, 1, 2])])
    case.qkv *= 100
    ours, _ = case.run(CompiledKernels(torch.float32))
    theirs, _ = case.run(TorchKernels(torch.float32))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-3)


def test_plan_cuts_long_prompts_and_finds_slots() -> None:
    plan = AttentionPlan.of([entry(30, 1, [7, 3]), entry(8, 20, [5, 6])], 16)
    assert plan.pieces.tolist() == [[0, 1, 30, 0], [1, 16, 8, 2], [17, 4, 24, 2]]
    assert plan.slots[:10].tolist() == [3 * 16 + 14, *(5 * 16 + i for i in range(8, 16)), 6 * 16]
    assert plan.sampled.tolist() == [0, 20]

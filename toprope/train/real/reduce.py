"""Gradients reduced in two levels, in buckets, while the backward pass still runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn


@dataclass(frozen=True)
class Levels:
    """Process groups of a card: its node, and the cards of the same place in all nodes."""

    near: dist.ProcessGroup
    far: dist.ProcessGroup

    @classmethod
    def of(cls, world: int, node: int) -> Levels:
        """Groups for `world` processes in nodes of `node`; every process makes all groups, as torch requires."""
        rank = dist.get_rank()
        near = [dist.new_group(list(range(n, n + node))) for n in range(0, world, node)]
        far = [dist.new_group(list(range(p, world, node))) for p in range(node)]
        return cls(near[rank // node], far[rank % node])


def hierarchical_all_reduce(array: Tensor, levels: Levels) -> None:
    """Sum of a one-dimensional array over all processes, in place: scatter in the node, reduce across, gather in the node."""
    p = dist.get_world_size(levels.near)
    padded = torch.nn.functional.pad(array, (0, -array.numel() % p))
    share = torch.empty(padded.numel() // p, dtype=array.dtype)
    dist.reduce_scatter_tensor(share, padded, group=levels.near)
    dist.all_reduce(share, group=levels.far)
    whole = torch.empty_like(padded)
    dist.all_gather_into_tensor(whole, share, group=levels.near)
    array.copy_(whole[: array.numel()])


class OverlappedGradients:
    """Hooks that send a bucket of gradients as soon as its last one is there; `finish` before the optimiser's step.

    Buckets hold up to `bucket_bytes`, filled from the last parameter on: the order in which a backward pass makes them.
    One thread sends them one after the other, beside the backward pass; every process forms the same buckets.
    """

    def __init__(self, module: nn.Module, levels: Levels, bucket_bytes: int = 1 << 16) -> None:
        from concurrent.futures import Future, ThreadPoolExecutor

        self._levels = levels
        self._sender = ThreadPoolExecutor(1)
        self._sent: list[tuple[list[nn.Parameter], Tensor, Future[None]]] = []
        self._next = 0
        self._buckets = list(_buckets([p for p in module.parameters() if p.requires_grad], bucket_bytes))
        self._missing = [len(bucket) for bucket in self._buckets]
        for at, bucket in enumerate(self._buckets):
            for parameter in bucket:
                parameter.register_post_accumulate_grad_hook(self._hook(at))

    def _hook(self, at: int):  # type: ignore[no-untyped-def]  # torch's hook type
        def arrived(_: Tensor) -> None:
            self._missing[at] -= 1
            # In order only: all processes must start the same collective.
            while self._next < len(self._buckets) and self._missing[self._next] == 0:
                self._send(self._buckets[self._next])
                self._next += 1

        return arrived

    def _send(self, bucket: list[nn.Parameter]) -> None:
        flat = torch.cat([p.grad.reshape(-1) for p in bucket if p.grad is not None])
        self._sent.append((bucket, flat, self._sender.submit(hierarchical_all_reduce, flat, self._levels)))

    def finish(self) -> None:
        """Wait for all buckets and put the mean gradients back. Raises when a parameter had none."""
        if self._next != len(self._buckets):
            raise RuntimeError(f"{len(self._buckets) - self._next} buckets have parameters without a gradient")
        for bucket, flat, sent in self._sent:
            sent.result()
            flat /= dist.get_world_size()
            at = 0
            for parameter in bucket:
                parameter.grad = flat[at : at + parameter.numel()].view_as(parameter)
                at += parameter.numel()
        self._sent.clear()
        self._missing = [len(bucket) for bucket in self._buckets]
        self._next = 0


def _buckets(parameters: list[nn.Parameter], bucket_bytes: int) -> Iterable[list[nn.Parameter]]:
    bucket: list[nn.Parameter] = []
    size = 0
    for parameter in reversed(parameters):
        bucket.append(parameter)
        size += parameter.numel() * parameter.element_size()
        if size >= bucket_bytes:
            yield bucket
            bucket, size = [], 0
    if bucket:
        yield bucket

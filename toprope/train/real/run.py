"""One process of a small training run: `python -m torch.distributed.run … -m toprope.train.real.run --strategy hsdp`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from toprope.train.real.reduce import Levels, OverlappedGradients
from toprope.train.real.small import SmallShape, SmallVisionLanguage, loss_of, make_model, samples

SHAPE = SmallShape()
BATCH = 8
_LR = 1e-3


@dataclass(frozen=True)
class Training:
    """A model under some strategy: `step(number)` trains on that step's samples and returns the whole batch's loss."""

    model: nn.Module
    optimiser: torch.optim.Optimizer
    step: Callable[[int], float]


def single(model: SmallVisionLanguage) -> Training:
    """All samples in one process: what the others must equal."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=_LR)

    def step(number: int) -> float:
        images, text, targets = samples(SHAPE, BATCH, number)
        optimiser.zero_grad()
        loss = loss_of(model(images, text), targets)
        loss.backward()
        optimiser.step()
        return float(loss.detach())

    return Training(model, optimiser, step)


def _share(number: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rank, world = dist.get_rank(), dist.get_world_size()
    each = BATCH // world
    images, text, targets = samples(SHAPE, BATCH, number)
    mine = slice(rank * each, (rank + 1) * each)
    return images[mine], text[mine], targets[mine]


def _mean(value: torch.Tensor) -> float:
    total = value.detach().clone()
    dist.all_reduce(total)
    return float(total.item()) / int(dist.get_world_size())


def hierarchical(model: SmallVisionLanguage) -> Training:
    """Data parallel with our two-level AllReduce, overlapped by hooks."""
    world = dist.get_world_size()
    gradients = OverlappedGradients(model, Levels.of(world, max(1, world // 2)))
    optimiser = torch.optim.AdamW(model.parameters(), lr=_LR)

    def step(number: int) -> float:
        images, text, targets = _share(number)
        optimiser.zero_grad(set_to_none=True)
        loss = loss_of(model(images, text), targets)
        loss.backward()
        gradients.finish()
        optimiser.step()
        return _mean(loss)

    return Training(model, optimiser, step)


def _fsdp(model: SmallVisionLanguage, shape: tuple[int, ...], names: tuple[str, ...]) -> Training:
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
    for layer in (*model.encoder, *model.layers):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimiser = torch.optim.AdamW(model.parameters(), lr=_LR)

    def step(number: int) -> float:
        images, text, targets = _share(number)
        optimiser.zero_grad()
        loss = loss_of(model(images, text), targets)
        loss.backward()
        optimiser.step()
        return _mean(loss)

    return Training(model, optimiser, step)


def zero3(model: SmallVisionLanguage) -> Training:
    """ZeRO-3 over all processes: torch's FSDP2."""
    return _fsdp(model, (dist.get_world_size(),), ("shard",))


def hsdp(model: SmallVisionLanguage) -> Training:
    """ZeRO-3 inside a node, replicas between nodes: FSDP2 on a mesh of two axes."""
    return _fsdp(model, (2, dist.get_world_size() // 2), ("replicate", "shard"))


def tensor(model: SmallVisionLanguage) -> Training:
    """Tensor parallel with sequence-parallel norms in the decoder: torch's DTensor plans; every process has all samples."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    inner = {name: ColwiseParallel() for name in ("q", "k", "v", "gate", "up")}
    for layer in model.encoder:
        parallelize_module(layer, mesh, {**inner, "o": RowwiseParallel(), "down": RowwiseParallel()})
    # The decoder's stream is cut along the sequence; products gather it, and scatter what they add to it.
    spread = {
        **{name: ColwiseParallel(input_layouts=Shard(1)) for name in inner},
        **{name: RowwiseParallel(output_layouts=Shard(1)) for name in ("o", "down")},
        **{name: SequenceParallel(use_local_output=True) for name in ("norm1", "norm2")},
    }
    for layer in model.layers:
        parallelize_module(layer, mesh, spread)
    first = PrepareModuleInput(input_layouts=(Replicate(),), desired_input_layouts=(Shard(1),), use_local_output=True)
    last = PrepareModuleOutput(output_layouts=(Shard(1),), desired_output_layouts=(Replicate(),))
    parallelize_module(model.layers[0], mesh, first)
    parallelize_module(model.layers[-1], mesh, last)
    parallelize_module(model, mesh, {"head": ColwiseParallel(output_layouts=Replicate())})
    optimiser = torch.optim.AdamW(model.parameters(), lr=_LR, foreach=False)

    def step(number: int) -> float:
        images, text, targets = samples(SHAPE, BATCH, number)
        optimiser.zero_grad()
        loss = loss_of(model(images, text), targets)
        loss.backward()
        optimiser.step()
        return float(loss.detach())

    return Training(model, optimiser, step)


class _Stage(nn.Module):
    """A share of the decoder's layers, with the front on the first and the head on the last stage."""

    def __init__(self, model: SmallVisionLanguage, stage: int, stages: int) -> None:
        super().__init__()
        each = SHAPE.layers // stages
        self.model, self.first, self.last = model, stage == 0, stage == stages - 1
        self.mine = range(stage * each, (stage + 1) * each)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        x = self.model.front(*inputs) if self.first else inputs[0]
        for at in self.mine:
            x = self.model.layers[at](x)
        end: torch.Tensor = self.model.back(x) if self.last else x
        return end


def pipeline(model: SmallVisionLanguage) -> Training:
    """One-forward-one-backward over all processes: torch's pipelining."""
    rank, world = dist.get_rank(), dist.get_world_size()
    part = _Stage(model, rank, world)
    stage = PipelineStage(part, rank, world, torch.device("cpu"))
    micro = 4
    schedule = Schedule1F1B(stage, micro, loss_fn=loss_of)
    used = [p for p in model.parameters()]
    optimiser = torch.optim.AdamW(used, lr=_LR)

    def step(number: int) -> float:
        images, text, targets = samples(SHAPE, BATCH, number)
        optimiser.zero_grad()
        losses: list[torch.Tensor] = []
        if rank == 0:
            schedule.step(images, text, target=targets, losses=losses)
        else:
            schedule.step(target=targets, losses=losses)
        optimiser.step()
        total = torch.stack(losses).mean().reshape(1) if rank == world - 1 else torch.zeros(1)
        dist.broadcast(total, world - 1)
        return float(total)

    return Training(model, optimiser, step)


STRATEGIES: dict[str, Callable[[SmallVisionLanguage], Training]] = {
    "single": single,
    "hierarchical": hierarchical,
    "zero3": zero3,
    "hsdp": hsdp,
    "tensor": tensor,
    "pipeline": pipeline,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Train `--steps` steps, resuming from `--checkpoint` where there is one; rank 0 writes losses to `--out`."""
    parser = argparse.ArgumentParser(prog="python -m toprope.train.real.run", description=__doc__)
    parser.add_argument("--strategy", choices=sorted(STRATEGIES), default="hierarchical")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--out", help="JSON file: losses by step, parameters' bytes of this process")
    parser.add_argument("--checkpoint", help="file to resume from and to write after each step (data parallel only)")
    parser.add_argument(
        "--die-at", type=int, help="the last process kills itself before this step, once: a test of restarts"
    )
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    alone = args.strategy == "single"
    if not alone:
        dist.init_process_group("gloo")
    training = STRATEGIES[args.strategy](make_model(SHAPE))
    losses, start = _resume(args.checkpoint, training)
    for number in range(start, args.steps):
        if args.die_at == number and _first_time(args.checkpoint) and dist.get_rank() == dist.get_world_size() - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        losses.append(training.step(number))
        if args.checkpoint and (alone or dist.get_rank() == 0):
            _keep(args.checkpoint, training, losses)
        if args.checkpoint and not alone:
            dist.barrier()
    if args.out and (alone or dist.get_rank() == 0):
        Path(args.out).write_text(json.dumps({"losses": losses, "parameter_bytes": _held_bytes(training)}))
    if not alone:
        dist.destroy_process_group()
    return 0


def _first_time(checkpoint: str | None) -> bool:
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) == 0 and checkpoint is not None


def _resume(checkpoint: str | None, training: Training) -> tuple[list[float], int]:
    if not checkpoint or not Path(checkpoint).exists():
        return [], 0
    kept = torch.load(checkpoint, weights_only=True)
    training.model.load_state_dict(kept["model"])
    training.optimiser.load_state_dict(kept["optimiser"])
    return list(kept["losses"]), len(kept["losses"])


def _keep(checkpoint: str, training: Training, losses: list[float]) -> None:
    state = {
        "model": training.model.state_dict(),
        "optimiser": training.optimiser.state_dict(),
        "losses": losses,
    }
    fresh = f"{checkpoint}.new"
    torch.save(state, fresh)
    os.replace(fresh, checkpoint)  # a kill in between leaves the old one whole


def _held_bytes(training: Training) -> int:
    """Bytes of the parameters that this process holds."""
    total = 0
    for parameter in training.model.parameters():
        local = parameter.to_local() if hasattr(parameter, "to_local") else parameter
        total += local.numel() * local.element_size()
    return total


if __name__ == "__main__":
    sys.exit(main())

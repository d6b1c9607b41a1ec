"""The seam between the scheduler and its policies."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class Phase(Enum):
    """The two kinds of work."""

    PREFILL = "prefill"  # compute prompts, of running requests and then of waiting ones
    DECODE = "decode"  # one token for each request whose prompt is computed


@dataclass(frozen=True, slots=True)
class Load:
    """What a policy may look at before a step."""

    now_s: float
    decodes: int  # running requests that need one token
    decode_context_tokens: int  # cached tokens those requests attend to
    prefills: int  # running requests whose prompt is not yet computed
    waiting: int  # requests in the queue, new and preempted
    can_admit: (
        bool  # a slot and, as far as is known without a cache look-up, enough KV blocks for the head of the queue
    )
    oldest_prefill_s: float | None  # arrival of the running or waiting prompt that is next, None if there is none
    prefill_tokens: int  # uncomputed tokens of running prompts and the head of the queue
    max_batch_size: int
    max_tokens: int

    @property
    def can_prefill(self) -> bool:
        """True when a prefill step would find work."""
        return self.prefills > 0 or self.can_admit


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What the step should contain: phases in the order in which they get the token budget.

    A plan under which nothing can run is replaced: the scheduler then does what its own limits allow.
    """

    phases: tuple[Phase, ...]
    max_batch_size: int | None = None  # admit up to so many running requests; None: the scheduler's limit
    prefill_tokens: int | None = None  # spend at most so many tokens on prompts; None: what the budget leaves


@dataclass(frozen=True, slots=True)
class StepWork:
    """What a finished step did, as far as policies learn from it."""

    decodes: int  # requests that got one more token
    prefills: int  # requests of whose prompt a chunk was computed
    tokens: int  # computed, of both kinds
    context_tokens: int  # cache positions in use by these requests after the step


class Policy(Protocol):
    """Plans each step and learns from the time it took. One instance serves one scheduler."""

    def plan(self, load: Load) -> StepPlan:
        """Decide the next step; only called when there is work."""

    def observe(self, work: StepWork, duration_s: float) -> None:
        """Called after each step with what was done and how long it took."""

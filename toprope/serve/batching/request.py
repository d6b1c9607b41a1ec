"""A generation request and its life: WAITING → RUNNING (⇄ SWAPPED, or back to WAITING) → FINISHED."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from toprope.serve.batching.block_table import BlockTable


class RequestState(Enum):
    """Where a request is; only the scheduler moves it."""

    WAITING = "waiting"  # in the queue, owns no blocks (new, or preempted by recompute)
    RUNNING = "running"  # owns device blocks, part of the steps
    SWAPPED = "swapped"  # in the queue, its keys and values lie in host memory
    FINISHED = "finished"  # owns nothing


_MOVES: dict[RequestState, frozenset[RequestState]] = {
    RequestState.WAITING: frozenset({RequestState.RUNNING, RequestState.FINISHED}),
    RequestState.RUNNING: frozenset({RequestState.WAITING, RequestState.SWAPPED, RequestState.FINISHED}),
    RequestState.SWAPPED: frozenset({RequestState.RUNNING, RequestState.WAITING, RequestState.FINISHED}),
    RequestState.FINISHED: frozenset(),
}


class FinishReason(Enum):
    """Why a request ended; the values are those of the OpenAI API where it has one."""

    STOP = "stop"  # a stop token or stop string
    LENGTH = "length"  # max_tokens reached
    ABORT = "abort"  # the client went away or cancelled
    ERROR = "error"  # the engine failed


@dataclass(frozen=True)
class Grammar:
    """What an answer must be: "json_schema", "json_object", "regex", "choice" (a JSON list) or "grammar" (Lark), and its text."""

    kind: str
    text: str


@dataclass(frozen=True)
class SamplingParams:
    """How the next token is drawn; the defaults are plain sampling at temperature 1."""

    temperature: float = 1.0  # 0 means greedy
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    logprobs: int | None = None  # how many alternatives to report beside the chosen token
    stop: tuple[str, ...] = ()  # stop strings; found by the engine, which sees text
    include_stop: bool = False  # the stop string stays in the text
    stop_token_ids: frozenset[int] = frozenset()  # found by the scheduler; the model's end token belongs here
    min_tokens: int = 0  # before so many tokens nothing stops the answer
    logit_bias: tuple[tuple[int, float], ...] = ()  # (token, what is added to its logit)
    bad_words: tuple[tuple[int, ...], ...] = ()  # token sequences that may not be completed
    grammar: Grammar | None = None
    prompt_logprobs: int | None = None  # of each prompt token, with so many alternatives
    embed: bool = False  # the last prompt token's hidden state is wanted; what is sampled is thrown away


@dataclass(eq=False, slots=True)
class Request:
    """One prompt on its way to an answer.

    `prompt_tokens` and `max_tokens` count tokens; times are in seconds on the clock the caller passes to the
    scheduler. A lower `priority` is served earlier; equal priorities are served in order of arrival. Everything below
    the marked line belongs to the scheduler.
    """

    id: str
    prompt_tokens: Sequence[int]
    max_tokens: int
    sampling: SamplingParams = field(default_factory=SamplingParams)
    priority: int = 0
    arrival_s: float = 0.0
    cache_salt: bytes = b""  # requests share cached prefixes only with equal salts (tenant, adapter, image hash)

    # -- set by the scheduler --------------------------------------------------------------------------------------
    state: RequestState = RequestState.WAITING
    finish_reason: FinishReason | None = None
    tokens: list[int] = field(init=False)  # the prompt, then what was generated
    computed_tokens: int = 0  # tokens whose keys and values are in the cache
    block_table: BlockTable = field(default_factory=BlockTable)
    on_host: bool = False  # the block table names host blocks
    block_keys: list[bytes] = field(default_factory=list)  # prefix-cache keys of the full blocks
    labelled_blocks: int = 0  # leading blocks offered to the prefix cache
    cached_tokens: int = 0  # tokens found in the prefix cache at the last admission
    preemptions: int = 0
    sequence: int = 0  # order of arrival, breaks ties
    first_scheduled_s: float | None = None
    first_token_s: float | None = None
    finished_s: float | None = None

    def __post_init__(self) -> None:
        self.tokens = list(self.prompt_tokens)

    @property
    def prompt_length(self) -> int:
        """Number of prompt tokens."""
        return len(self.prompt_tokens)

    @property
    def output_length(self) -> int:
        """Number of tokens generated so far."""
        return len(self.tokens) - len(self.prompt_tokens)

    @property
    def output_tokens(self) -> list[int]:
        """The tokens generated so far, as a new list."""
        return self.tokens[len(self.prompt_tokens) :]

    @property
    def uncomputed_tokens(self) -> int:
        """Known tokens whose keys and values are still to be computed: 1 while decoding, more while prefilling."""
        return len(self.tokens) - self.computed_tokens

    @property
    def is_decoding(self) -> bool:
        """True when the next step computes just the token sampled last."""
        return self.computed_tokens == len(self.tokens) - 1 and self.computed_tokens > 0

    @property
    def order(self) -> tuple[int, float, int]:
        """Sort key: what is smaller is served earlier and preempted later."""
        return (self.priority, self.arrival_s, self.sequence)

    def move_to(self, state: RequestState) -> None:
        """Change state; an illegal change is a bug of the scheduler and raises `RuntimeError`."""
        if state not in _MOVES[self.state]:
            raise RuntimeError(f"request {self.id!r} cannot go from {self.state.value} to {state.value}")
        self.state = state

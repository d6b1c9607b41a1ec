"""Which fields a body may have. A field this server does not know, or cannot honour, is refused by name, never ignored."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from toprope.serve.errors import BadRequest


class BadParameter(BadRequest):
    """A field of the body is missing or wrong; `param` names it."""

    code = "invalid-value"

    def __init__(self, param: str, message: str) -> None:
        super().__init__(f"{param}: {message}")
        self.param = param


# Read by both routes.
_COMMON = frozenset(
    [
        "model",
        "frequency_penalty",
        "presence_penalty",
        "repetition_penalty",
        "logit_bias",
        "logprobs",
        "max_tokens",
        "n",
        "seed",
        "stop",
        "stop_token_ids",
        "stream",
        "stream_options",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "ignore_eos",
        "min_tokens",
        "bad_words",
        "include_stop_str_in_output",
        "priority",
        "prompt_logprobs",
        "response_format",
        "structured_outputs",
        "guided_json",
        "guided_regex",
        "guided_choice",
        "guided_grammar",
    ]
)
_CHAT = _COMMON | frozenset(
    [
        "messages",
        "max_completion_tokens",
        "top_logprobs",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "chat_template_kwargs",
    ]
)
_COMPLETION = _COMMON | {"prompt", "best_of", "echo"}
# Labels for the client's own books: they change no answer, here or elsewhere.
_LABELS = frozenset(["user", "metadata", "safety_identifier", "prompt_cache_key"])
# Fields with one value that asks for nothing this server does not do.
_HARMLESS: Mapping[str, tuple[Any, ...]] = {
    "store": (False,),
    "service_tier": ("auto", "default"),
    "modalities": (["text"],),
    "use_beam_search": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "detokenize": (True,),
    "truncate_prompt_tokens": (),
    "add_special_tokens": (),
    "suffix": ("",),
    "functions": ([],),
    "function_call": ("none",),
    "audio": (),
    "prediction": (),
    "reasoning_effort": ("none",),
    "verbosity": ("medium",),
    "web_search_options": (),
    "allowed_token_ids": (),
    "length_penalty": (1.0,),
    "early_stopping": (False,),
    "documents": (),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "return_token_ids": (False,),
    "return_tokens_as_token_ids": (False,),
}


def check_fields(body: Mapping[str, Any], *, is_chat: bool) -> None:
    """Raise `BadParameter` for the first field that is unknown or asks for what cannot be done; null is absent."""
    known = _CHAT if is_chat else _COMPLETION
    for name, value in body.items():
        if name in known or name in _LABELS or value is None:
            continue
        if name in _HARMLESS:
            if value in _HARMLESS[name] and not (isinstance(value, bool) and 1.0 in _HARMLESS[name]):
                continue
            raise BadParameter(name, "is not supported by this server; leave it out")
        other = _COMPLETION if is_chat else _CHAT
        if name in other:
            route = "/v1/completions" if is_chat else "/v1/chat/completions"
            raise BadParameter(name, f"belongs to {route}, not here")
        near = difflib.get_close_matches(name, known, 1)
        raise BadParameter(name, "is not a field of this API" + (f"; did you mean {near[0]}?" if near else ""))

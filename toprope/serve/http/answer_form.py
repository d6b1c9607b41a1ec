"""The form an answer must have, in the words of OpenAI's and of vLLM's API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toprope.serve.batching.request import Grammar
from toprope.serve.http.fields import BadParameter

_KINDS = {
    "json": "json_schema",
    "regex": "regex",
    "choice": "choice",
    "grammar": "grammar",
    "json_object": "json_object",
}


def read_grammar(body: Mapping[str, Any]) -> Grammar | None:
    """From `response_format`, `structured_outputs` or a `guided_…` field; raises `BadParameter` for two of them."""
    found = [
        *_response_format(body.get("response_format")),
        *_structured(body.get("structured_outputs")),
        *(g for name in ("json", "regex", "choice", "grammar") for g in _guided(name, body.get(f"guided_{name}"))),
    ]
    if len(found) > 1:
        names = ", ".join(name for name, _ in found)
        raise BadParameter(found[1][0], f"only one form can be asked for, not {names}")
    return found[0][1] if found else None


def _response_format(form: Any) -> list[tuple[str, Grammar]]:
    name = "response_format"
    if form is None:
        return []
    if not isinstance(form, dict):
        raise BadParameter(name, "must be an object with a type")
    kind = form.get("type")
    if kind == "text":
        return []
    if kind == "json_object":
        return [(name, Grammar("json_object", ""))]
    if kind == "json_schema":
        inner = form.get("json_schema")
        if not isinstance(inner, dict) or not isinstance(inner.get("schema"), dict):
            raise BadParameter(name, "json_schema needs a schema")
        return [(name, Grammar("json_schema", json.dumps(inner["schema"])))]
    raise BadParameter(name, f"type must be text, json_object or json_schema, not {kind!r}")


def _structured(given: Any) -> list[tuple[str, Grammar]]:
    if given is None:
        return []
    name = "structured_outputs"
    if not isinstance(given, dict):
        raise BadParameter(name, "must be an object")
    unknown = sorted(set(given) - set(_KINDS))
    if unknown:
        raise BadParameter(f"{name}.{unknown[0]}", f"is not a form; known: {', '.join(_KINDS)}")
    return [item for kind, value in given.items() if value is not None for item in _guided(kind, value, name)]


def _guided(kind: str, value: Any, name: str = "") -> list[tuple[str, Grammar]]:
    if value is None or (kind == "json_object" and value is False):
        return []
    name = name or f"guided_{kind}"
    if kind == "json_object":
        return [(name, Grammar("json_object", ""))]
    if kind == "json":
        text = value if isinstance(value, str) else json.dumps(value)
    elif kind == "choice":
        if not isinstance(value, list) or not value or not all(isinstance(v, str) and v for v in value):
            raise BadParameter(name, "must be a non-empty list of non-empty strings")
        text = json.dumps(value)
    elif isinstance(value, str) and value:
        text = value
    else:
        raise BadParameter(name, "must be a non-empty string")
    return [(name, Grammar(_KINDS[kind], text))]

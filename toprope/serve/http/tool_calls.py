"""Function calls: how a model is told of tools, how its answer is made to call one, and how calls are read from text."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toprope.serve.batching.request import Grammar
from toprope.serve.http.fields import BadParameter

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


@dataclass(frozen=True)
class Tools:
    """The functions of a request. `marked`: the model wraps calls in `<tool_call>`, otherwise an answer is one bare call.

    `must`: "" (the model decides), "any" (at least one call), or a function's name.
    """

    functions: tuple[dict[str, Any], ...]
    marked: bool
    must: str = ""

    def grammar(self) -> Grammar | None:
        """What the answer must look like where a call is demanded."""
        if not self.must:
            return None
        names = [f for f in self.functions if self.must in ("any", f["name"])]
        calls = [
            {
                "type": "object",
                "properties": {
                    "name": {"const": f["name"]},
                    "arguments": f.get("parameters") or {"type": "object"},
                },
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
            for f in names
        ]
        # No white space between: a call is read by programs, and weak models fill it without end.
        schema = json.dumps({"anyOf": calls, "x-guidance": {"whitespace_flexible": False}})
        if not self.marked:
            return Grammar("json_schema", schema)
        return Grammar("grammar", f'start: "{_OPEN}" "\\n"? call "\\n"? "{_CLOSE}"\ncall: %json {schema}')


def read_tools(body: Mapping[str, Any], template: str) -> Tools | None:
    """Tools of a chat body; raises `BadParameter`, also for models whose chat template knows no tools."""
    given, choice = body.get("tools"), body.get("tool_choice")
    if not given:
        if choice not in (None, "none", "auto"):
            raise BadParameter("tool_choice", "needs tools")
        return None
    if not isinstance(given, list):
        raise BadParameter("tools", "must be a list")
    functions = []
    for at, tool in enumerate(given):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or tool.get("type") != "function":
            raise BadParameter(f"tools[{at}]", 'must be {"type": "function", "function": {...}}')
        name = function.get("name")
        if not isinstance(name, str) or not name:
            raise BadParameter(f"tools[{at}].function.name", "is required and must be a string")
        if not isinstance(function.get("parameters", {}), dict):
            raise BadParameter(f"tools[{at}].function.parameters", "must be a JSON schema")
        functions.append(function)
    if choice == "none":
        return None
    if "tools" not in template:
        raise BadParameter("tools", "this model's chat template knows no tools; leave them out or serve another model")
    must = ""
    if choice == "required":
        must = "any"
    elif isinstance(choice, dict):
        must = str((choice.get("function") or {}).get("name", ""))
        if must not in {f["name"] for f in functions}:
            raise BadParameter("tool_choice", f"names {must!r}, which is none of the tools")
    elif choice not in (None, "auto"):
        raise BadParameter("tool_choice", f"must be none, auto, required or a function, not {choice!r}")
    return Tools(tuple(functions), _OPEN in template, must)


@dataclass
class CallReader:
    """Takes an answer's text as it comes; text that may be a call is held back until it is certain."""

    tools: Tools
    calls: list[dict[str, Any]] = field(default_factory=list)
    _held: str = ""

    def push(self, text: str) -> tuple[str, list[dict[str, Any]]]:
        """Text that is no call, and calls that are complete now."""
        self._held += text
        if not self.tools.marked:
            # A bare call is the whole answer: it begins with a brace, or there is none.
            if self._held.lstrip().startswith("{") or not self._held.strip():
                return "", []
            shown, self._held = self._held, ""
            return shown, []
        shown, found = "", []
        while (start := self._held.find(_OPEN)) >= 0:
            end = self._held.find(_CLOSE, start)
            if end < 0:
                break
            shown += self._held[:start]
            call = self._call(self._held[start + len(_OPEN) : end])
            if call is None:
                shown += self._held[start : end + len(_CLOSE)]
            else:
                found.append(call)
            self._held = self._held[end + len(_CLOSE) :]
        if start < 0:
            keep = next((n for n in range(len(_OPEN) - 1, 0, -1) if self._held.endswith(_OPEN[:n])), 0)
            shown += self._held[: len(self._held) - keep]
            self._held = self._held[len(self._held) - keep :]
        return shown, found

    def finish(self) -> tuple[str, list[dict[str, Any]]]:
        """What is left at the end of the answer: a bare call, or text."""
        held, self._held = self._held, ""
        if not self.tools.marked and (call := self._call(held)) is not None:
            return "", [call]
        return held, []

    def _call(self, text: str) -> dict[str, Any] | None:
        try:
            value = json.loads(text)
        except ValueError:
            return None
        names = {f["name"] for f in self.tools.functions}
        if not isinstance(value, dict) or value.get("name") not in names:
            return None
        arguments = value.get("arguments", value.get("parameters", {}))
        call = {
            "index": len(self.calls),
            "id": f"call_{uuid.uuid4().hex[:24]}",
            "type": "function",
            "function": {"name": value["name"], "arguments": json.dumps(arguments, ensure_ascii=False)},
        }
        self.calls.append(call)
        return call


def without_index(calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Calls as a whole message has them: streams number them, messages do not."""
    return [{k: v for k, v in call.items() if k != "index"} for call in calls]

"""What clients of the OpenAI and vLLM APIs send beyond plain sampling: forms, tools, biases, keys; each by its effect."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("httpx")
pytest.importorskip("uvicorn")
pytest.importorskip("llguidance")

from tests.serve.http.running_server import RunningServer, running_server
from tests.serve.tiny_llama import save_model
from toprope.serve.http.guard import Admission
from toprope.serve.http.tool_calls import CallReader, Tools

pytestmark = pytest.mark.torch

TEMPLATE = (
    "{% if tools %}You may call: {{ tools | tojson }} inside <tool_call></tool_call>\n{% endif %}"
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}"
    "{% for c in m.get('tool_calls') or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}\n{% endfor %}"
    "assistant:"
)
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"days": {"type": "integer", "minimum": 1, "maximum": 9}},
            "required": ["days"],
            "additionalProperties": False,
        },
    },
}
USER = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = save_model(tmp_path_factory.mktemp("model"))
    (made / "chat_template.jinja").write_text(TEMPLATE)
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    with running_server(folder) as running:
        yield running


def text(server: RunningServer, **body: Any) -> str:
    answer = server.complete(temperature=0, **body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["text"])


def tokens(server: RunningServer, prompt: str) -> list[int]:
    found: list[int] = server.post("/tokenize", {"prompt": prompt, "add_special_tokens": False}).json()["tokens"]
    return found


def chat(server: RunningServer, **body: Any) -> dict[str, Any]:
    answer = server.post("/v1/chat/completions", {"model": "tiny", "messages": USER, "temperature": 0, **body})
    assert answer.status_code == 200, answer.text
    choice: dict[str, Any] = answer.json()["choices"][0]
    return choice


def events(server: RunningServer, **body: Any) -> list[dict[str, Any]]:
    whole = {"model": "tiny", "messages": USER, "temperature": 0, "stream": True, **body}
    lines = server.post("/v1/chat/completions", whole).text.splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "n": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["ok", "n"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "form",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
        {"structured_outputs": {"json": SCHEMA}},
        {"guided_json": SCHEMA},
        {"guided_json": json.dumps(SCHEMA)},
    ],
    ids=["response_format", "structured_outputs", "guided_json", "guided_json text"],
)
def test_answers_obey_a_schema(server: RunningServer, form: dict[str, Any]) -> None:
    for seed in range(3):
        found = json.loads(text(server, max_tokens=200, seed=seed, **form))
        assert set(found) == {"ok", "n"} and isinstance(found["ok"], bool) and 0 <= found["n"] <= 99


@pytest.mark.parametrize(
    ("form", "pattern"),
    [
        ({"guided_regex": "[a-f]{3}-[0-9]{2}"}, "[a-f]{3}-[0-9]{2}"),
        ({"structured_outputs": {"regex": "x+y"}}, "x+y"),
        ({"guided_choice": ["yes", "no"]}, "yes|no"),
        ({"structured_outputs": {"choice": ["left", "right"]}}, "left|right"),
        ({"guided_grammar": 'start: "a" ("," "a")*'}, "a(,a)*"),
    ],
    ids=lambda v: next(iter(v)) if isinstance(v, dict) else "",
)
def test_answers_obey_other_forms(server: RunningServer, form: dict[str, Any], pattern: str) -> None:
    # A random model may go on for ever where a form lets it: then the answer is a beginning of one.
    answer = server.complete(temperature=0, max_tokens=60, **form).json()["choices"][0]
    if answer["finish_reason"] == "stop":
        assert re.fullmatch(pattern, answer["text"])
    else:
        assert "+" in pattern or "*" in pattern
        assert set(answer["text"]) <= set("xya,")


def test_json_mode_gives_an_object(server: RunningServer) -> None:
    schema = {"type": "json_object"}
    choice = chat(server, response_format=schema, max_tokens=40)
    assert choice["message"]["content"].lstrip().startswith("{")


def test_a_form_and_its_neighbours_in_one_batch(server: RunningServer) -> None:
    alone = text(server, max_tokens=12)
    whole = {"model": "tiny", "prompt": ["Hello", "Hello"], "max_tokens": 12, "temperature": 0}
    assert [c["text"] for c in server.post("/v1/completions", whole).json()["choices"]] == [alone, alone]
    assert text(server, max_tokens=12, guided_choice=["yes"]) == "yes"
    assert text(server, max_tokens=12) == alone


def test_biases_bar_and_force_tokens(server: RunningServer) -> None:
    (letter,) = tokens(server, "A")
    assert text(server, max_tokens=5, logit_bias={str(letter): 100}) == "AAAAA"
    free = server.complete(temperature=0, max_tokens=1, logprobs=2).json()["choices"][0]["logprobs"]
    chosen, second = free["top_logprobs"][0]
    (token,) = tokens(server, chosen)
    barred = server.complete(temperature=0, max_tokens=1, logprobs=1, logit_bias={str(token): -100}).json()
    assert barred["choices"][0]["logprobs"]["tokens"] == [second]


def test_logprobs_beside_a_bias_are_json(server: RunningServer) -> None:
    answer = server.complete(temperature=0, max_tokens=3, logprobs=5, guided_choice=["yes"])
    assert "Infinity" not in answer.text
    assert set(answer.json()["choices"][0]["logprobs"]["top_logprobs"][0]) == {"y"}


def test_bad_words_never_come(server: RunningServer) -> None:
    plain = text(server, max_tokens=30)
    word = plain[3:5]
    assert word not in text(server, max_tokens=30, bad_words=[word])


def test_nothing_ends_an_answer_before_min_tokens(server: RunningServer) -> None:
    stop = text(server, max_tokens=4)[1:2]
    early = text(server, max_tokens=20, stop=[stop])
    later = text(server, max_tokens=20, stop=[stop], min_tokens=10)
    assert len(early) <= 1 < 10 <= len(later.encode())
    biased = server.complete(temperature=0, max_tokens=20, min_tokens=7, logit_bias={"256": 100}).json()
    assert biased["usage"]["completion_tokens"] == 8 and biased["choices"][0]["finish_reason"] == "stop"


def test_the_stop_string_stays_where_asked(server: RunningServer) -> None:
    stop = text(server, max_tokens=10)[4:6]
    without = text(server, max_tokens=10, stop=[stop])
    assert text(server, max_tokens=10, stop=[stop], include_stop_str_in_output=True) == without + stop


@pytest.mark.parametrize("as_tokens", [False, True], ids=["text", "tokens"])
def test_echo(server: RunningServer, as_tokens: bool) -> None:
    begin = "Hello"
    prompt: Any = tokens(server, begin) if as_tokens else begin
    answer = text(server, prompt=prompt, max_tokens=5)
    assert text(server, prompt=prompt, max_tokens=5, echo=True) == begin + answer
    body = {"model": "tiny", "prompt": prompt, "max_tokens": 5, "temperature": 0, "echo": True, "stream": True}
    lines = [line[6:] for line in server.post("/v1/completions", body).text.splitlines() if line.startswith("data: {")]
    assert "".join(json.loads(line)["choices"][0]["text"] for line in lines) == begin + answer


def test_extreme_temperatures_are_greedy(server: RunningServer) -> None:
    greedy = text(server, max_tokens=8)
    for temperature in (1e-300, 1e-9):
        answer = server.complete(temperature=temperature, max_tokens=8)
        assert answer.json()["choices"][0]["text"] == greedy


def test_labels_change_nothing(server: RunningServer) -> None:
    plain = text(server, max_tokens=5)
    assert text(server, max_tokens=5, user="me", metadata={"a": "b"}, store=False, service_tier="auto") == plain


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
def test_a_demanded_call_is_made(server: RunningServer, choice: Any) -> None:
    answer = chat(server, tools=[WEATHER], tool_choice=choice, max_tokens=200)
    assert answer["finish_reason"] == "tool_calls" and answer["message"]["content"] is None
    (call,) = answer["message"]["tool_calls"]
    assert call["function"]["name"] == "weather" and call["id"].startswith("call_")
    assert 1 <= json.loads(call["function"]["arguments"])["days"] <= 9
    streamed = events(server, tools=[WEATHER], tool_choice=choice, max_tokens=200)
    calls = [c for e in streamed for c in e["choices"][0]["delta"].get("tool_calls", [])]
    assert [c["function"] for c in calls] == [call["function"]] and calls[0]["index"] == 0
    assert streamed[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_tools_that_the_model_does_not_use(server: RunningServer) -> None:
    answer = chat(server, tools=[WEATHER], max_tokens=10)
    assert "tool_calls" not in answer["message"] and answer["finish_reason"] == "length"
    told = chat(server, max_tokens=10)["message"]["content"]
    assert chat(server, tools=[WEATHER], tool_choice="none", max_tokens=10)["message"]["content"] == told


def test_a_conversation_with_calls_reaches_the_template(server: RunningServer) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"days": 2}'}}
    messages = [
        *USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "sun"},
    ]
    told = server.post("/tokenize", {"messages": messages}).json()["tokens"]
    written = server.post("/detokenize", {"tokens": told}).json()["prompt"]
    assert '<tool_call>{"name": "weather", "arguments": {"days": 2}}</tool_call>' in written
    assert "tool: sun" in written
    assert chat(server, messages=messages, tools=[WEATHER], max_tokens=3)["finish_reason"] == "length"
    bad = {**call, "function": {"name": "weather", "arguments": "{"}}
    answer = server.post(
        "/v1/chat/completions",
        {"model": "tiny", "messages": [*USER, {"role": "assistant", "content": None, "tool_calls": [bad]}]},
    )
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "messages[1].tool_calls[0]"


MARKED = Tools((WEATHER["function"],), marked=True)  # type: ignore[arg-type]
BARE = Tools((WEATHER["function"],), marked=False)  # type: ignore[arg-type]
CALL = '{"name": "weather", "arguments": {"days": 3}}'


@pytest.mark.parametrize("width", [1, 3, 1000])
@pytest.mark.parametrize(
    ("tools", "answer", "shown", "calls"),
    [
        (MARKED, f"Look: <tool_call>{CALL}</tool_call>", "Look: ", 1),
        (MARKED, f"<tool_call>\n{CALL}\n</tool_call>\n<tool_call>{CALL}</tool_call>", "\n", 2),
        (MARKED, "a <tool> b", "a <tool> b", 0),
        (MARKED, "ends with <tool_", "ends with <tool_", 0),
        (MARKED, "<tool_call>{bad}</tool_call>", "<tool_call>{bad}</tool_call>", 0),
        (MARKED, '<tool_call>{"name": "other"}</tool_call>', '<tool_call>{"name": "other"}</tool_call>', 0),
        (BARE, CALL, "", 1),
        (BARE, CALL.replace("arguments", "parameters"), "", 1),
        (BARE, "plain text", "plain text", 0),
        (BARE, '{"a": 1}', '{"a": 1}', 0),
    ],
)
def test_calls_are_read_from_pieces(tools: Tools, answer: str, shown: str, calls: int, width: int) -> None:
    reader, out, found = CallReader(tools), "", []
    for at in range(0, len(answer), width):
        piece, complete = reader.push(answer[at : at + width])
        out, found = out + piece, [*found, *complete]
    piece, complete = reader.finish()
    out, found = out + piece, [*found, *complete]
    assert out == shown and len(found) == calls
    assert [c["index"] for c in found] == list(range(calls))
    assert all(json.loads(c["function"]["arguments"]) == {"days": 3} for c in found)


def test_tokens_and_back(server: RunningServer) -> None:
    answer = server.post("/tokenize", {"prompt": "Hello", "return_token_strs": True}).json()
    assert len(answer["tokens"]) == 5 and answer["token_strs"] == list("Hello") and answer["count"] == 5
    assert server.post("/detokenize", {"tokens": answer["tokens"]}).json()["prompt"] == "Hello"
    assert server.post("/tokenize", {"prompt": 5}).json()["error"]["param"] == "prompt"
    assert server.post("/tokenize", {"text": "x"}).json()["error"]["param"] == "text"
    assert server.post("/detokenize", {"tokens": [99999]}).status_code == 400


def test_every_answer_has_the_requests_name(server: RunningServer) -> None:
    named = server.post("/v1/completions", {"model": "tiny", "prompt": "Hi"}, headers={"X-Request-Id": "mine-7"})
    assert named.headers["x-request-id"] == "mine-7"
    assert len(server.get("/health").headers["x-request-id"]) == 32
    bad = server.post("/v1/completions", {}, headers={"X-Request-Id": "a b\x01"})
    assert bad.status_code == 400 and len(bad.headers["x-request-id"]) == 32


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Host": "evil.example"}, 403, "forbidden_origin"),
        ({"Origin": "https://evil.example"}, 403, "forbidden_origin"),
        ({"Origin": "null"}, 403, "forbidden_origin"),
        ({"Content-Type": "text/plain"}, 415, "wrong_content_type"),
        ({"Content-Type": "application/json; charset=utf-8"}, 200, None),
        ({"Origin": "http://127.0.0.1:1"}, 200, None),
        ({"Host": "localhost:8000"}, 200, None),
    ],
)
def test_pages_of_other_sites_are_refused(
    server: RunningServer, headers: dict[str, str], status: int, code: str | None
) -> None:
    body = json.dumps({"model": "tiny", "prompt": "Hi", "max_tokens": 1})
    answer = server.post("/v1/completions", content=body, headers={"Content-Type": "application/json", **headers})
    assert answer.status_code == status and (code is None or answer.json()["error"]["code"] == code)


def test_keys(folder: Path) -> None:
    admission = Admission(keys=("one", "two"), origins=frozenset({"https://ui.example"}))
    with running_server(folder, admission=admission) as closed:
        body = {"model": "tiny", "prompt": "Hi", "max_tokens": 1}
        for key, status in ((None, 401), ("three", 401), ("x" * 300, 401), ("one", 200), ("two", 200)):
            headers = {} if key is None else {"Authorization": f"Bearer {key}"}
            assert closed.post("/v1/completions", body, headers=headers).status_code == status
        assert closed.get("/health").status_code == 200 and closed.get("/v1/models").status_code == 401
        page = {"Authorization": "Bearer one", "Origin": "https://ui.example"}
        assert closed.post("/v1/completions", body, headers=page).status_code == 200


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="stops a process")
def test_an_engine_that_hangs_is_noticed_and_replaced(folder: Path) -> None:
    with running_server(folder, silence_s=2.5) as fragile:
        pid = fragile.server.engine.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        answer = fragile.complete(max_tokens=400)
        assert answer.status_code == 500 and "hung" in answer.json()["error"]["message"]
        fragile.until(lambda: fragile.get("/health").status_code == 200, "a new engine answers")
        assert fragile.server.engine.pid != pid and fragile.complete(max_tokens=2).status_code == 200


def test_a_port_in_use_is_found_before_the_model_loads(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "toprope.serve.http.server", str(folder), "--port", str(port)],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 2 and "cannot listen" in done.stderr and "Traceback" not in done.stderr

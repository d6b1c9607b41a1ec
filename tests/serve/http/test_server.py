"""The server as its clients see it: through the official client, with bad input, and when things break."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
httpx = pytest.importorskip("httpx")
openai = pytest.importorskip("openai")
pytest.importorskip("uvicorn")

from tests.serve.http.running_server import RunningServer, running_server  # noqa: E402
from tests.serve.tiny_llama import save_model  # noqa: E402
from toprope.errors import TopropeError  # noqa: E402
from toprope.serve.batching.scheduler import SchedulerLimits  # noqa: E402
from toprope.serve.errors import ServeError  # noqa: E402
from toprope.serve.model.bad_weights import BadWeights  # noqa: E402

pytestmark = pytest.mark.torch
GREEDY: dict[str, Any] = {"model": "tiny", "temperature": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    with running_server(folder, body_bytes=20_000, request_timeout_s=30.0) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Any:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def test_models_and_health(server: RunningServer, client: Any) -> None:
    assert [m.id for m in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").owned_by == "toprope"
    assert server.get("/health").json()["status"] == "ready"


def test_completion(server: RunningServer, client: Any) -> None:
    answer = client.completions.create(**GREEDY, prompt="Hello", max_tokens=10)
    assert answer.object == "text_completion"
    assert answer.choices[0].finish_reason == "length"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (5, 10, 15)
    by_tokens = client.completions.create(**GREEDY, prompt=server.server._tokenizer.encode("Hello"), max_tokens=10)
    assert by_tokens.choices[0].text == answer.choices[0].text
    assert client.completions.create(**GREEDY, prompt="Hello").usage.completion_tokens == 16, "the API's default"


def test_several_prompts_and_choices(client: Any) -> None:
    alone = [
        client.completions.create(model="tiny", prompt=p, seed=5, max_tokens=8).choices[0].text for p in ("One", "Two")
    ]
    both = client.completions.create(model="tiny", prompt=["One", "Two"], n=2, seed=5, max_tokens=8)
    assert [c.index for c in both.choices] == [0, 1, 2, 3]
    assert both.choices[0].text == alone[0]
    assert both.choices[0].text != both.choices[1].text
    assert both.usage.prompt_tokens == 6
    assert both.usage.completion_tokens == 32


def test_chat_and_its_stream_agree(client: Any) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hé"}]},
    ]
    whole = client.chat.completions.create(**GREEDY, messages=messages, max_completion_tokens=25)
    assert whole.choices[0].message.role == "assistant"
    chunks = list(
        client.chat.completions.create(
            **GREEDY, messages=messages, max_tokens=25, stream=True, stream_options={"include_usage": True}
        )
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "length"
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens == 25
    assert len({c.id for c in chunks}) == 1
    assert len(chunks) > 10


def test_a_stream_of_several_choices(client: Any) -> None:
    whole = client.completions.create(model="tiny", prompt="Hi", n=3, seed=1, max_tokens=12)
    texts = ["", "", ""]
    for chunk in client.completions.create(model="tiny", prompt="Hi", n=3, seed=1, max_tokens=12, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == [c.text for c in whole.choices]


def test_chat_without_max_tokens_goes_to_the_end_of_the_context(client: Any) -> None:
    answer = client.chat.completions.create(**GREEDY, messages=[{"role": "user", "content": "x" * 400}])
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.total_tokens == 512


def test_stop_strings(client: Any) -> None:
    full = client.completions.create(**GREEDY, prompt="Hello", max_tokens=30).choices[0].text
    stopped = client.completions.create(**GREEDY, prompt="Hello", max_tokens=30, stop=[full[6:8], "never"])
    assert stopped.choices[0].finish_reason == "stop"
    assert stopped.choices[0].text == full[: full.find(full[6:8])]


def test_logprobs(client: Any) -> None:
    chat = client.chat.completions.create(
        **GREEDY, messages=[{"role": "user", "content": "Hi"}], max_tokens=3, logprobs=True, top_logprobs=2
    )
    content = chat.choices[0].logprobs.content
    assert len(content) == 3
    assert all(item.logprob == item.top_logprobs[0].logprob <= 0 and len(item.top_logprobs) == 2 for item in content)
    plain = client.completions.create(**GREEDY, prompt="Hi", max_tokens=3, logprobs=2).choices[0].logprobs
    assert len(plain.tokens) == len(plain.token_logprobs) == len(plain.top_logprobs) == len(plain.text_offset) == 3
    stream = client.completions.create(**GREEDY, prompt="Hi", max_tokens=3, logprobs=2, stream=True)
    assert [t for chunk in stream for t in chunk.choices[0].logprobs.tokens] == plain.tokens


CHAT = {"messages": [{"role": "user", "content": "Hi"}]}
BAD = [
    ("completions", {"prompt": ""}, "prompt", 400),
    ("completions", {"prompt": []}, "prompt", 400),
    ("completions", {}, "prompt", 400),
    ("completions", {"prompt": {"a": 1}}, "prompt", 400),
    ("completions", {"prompt": [1, 2, 99999]}, None, 400),
    ("completions", {"prompt": [-1]}, None, 400),
    ("completions", {"prompt": "x" * 600}, None, 400),
    ("completions", {"prompt": "Hi", "max_tokens": 511}, None, 400),
    ("completions", {"prompt": "Hi", "max_tokens": 0}, "max_tokens", 400),
    ("completions", {"prompt": "Hi", "max_tokens": "many"}, "max_tokens", 400),
    ("completions", {"prompt": "Hi", "max_tokens": True}, "max_tokens", 400),
    ("completions", {"prompt": "Hi", "temperature": -1}, "temperature", 400),
    ("completions", {"prompt": "Hi", "temperature": float("nan")}, "temperature", 400),
    ("completions", {"prompt": "Hi", "top_p": 0}, "top_p", 400),
    ("completions", {"prompt": "Hi", "n": 0}, "n", 400),
    ("completions", {"prompt": ["Hi"] * 200, "n": 128}, "n", 400),
    ("completions", {"prompt": "Hi", "best_of": 3}, "best_of", 400),
    ("completions", {"prompt": "Hi", "stop": ["a", ""]}, "stop", 400),
    ("completions", {"prompt": "Hi", "stop": 5}, "stop", 400),
    ("completions", {"prompt": "Hi", "stream": "yes"}, "stream", 400),
    ("completions", {"prompt": "Hi", "logprobs": 21}, "logprobs", 400),
    ("completions", {"prompt": "Hi", "logit_bias": {"five": 1}}, "logit_bias", 400),
    ("completions", {"prompt": "Hi", "logit_bias": {"5": 101}}, "logit_bias", 400),
    ("completions", {"prompt": "Hi", "logit_bias": {"99999": 1}}, None, 400),
    ("completions", {"prompt": "Hi", "bad_words": "a"}, "bad_words", 400),
    ("completions", {"prompt": "Hi", "max_token": 5}, "max_token", 400),
    ("completions", {"prompt": "Hi", "messages": []}, "messages", 400),
    ("completions", {"prompt": "Hi", "suffix": "x"}, "suffix", 400),
    ("completions", {"prompt": "Hi", "prompt_logprobs": -1}, "prompt_logprobs", 400),
    ("completions", {"prompt": "Hi", "prompt_logprobs": 0, "stream": True}, "prompt_logprobs", 400),
    ("completions", {"prompt": "Hi", "echo": True, "logprobs": 0, "stream": True}, "echo", 400),
    ("completions", {"prompt": "Hi", "use_beam_search": True}, "use_beam_search", 400),
    ("completions", {"prompt": "Hi", "length_penalty": True}, "length_penalty", 400),
    ("completions", {"prompt": "Hi", "min_tokens": 9, "max_tokens": 8}, "min_tokens", 400),
    ("completions", {"prompt": "Hi", "stream_options": {"usage": True}}, "stream_options.usage", 400),
    ("completions", {"prompt": "Hi", "guided_regex": ""}, "guided_regex", 400),
    ("completions", {"prompt": "Hi", "guided_regex": "(", "max_tokens": 2}, None, 400),
    ("completions", {"prompt": "Hi", "guided_regex": "a", "guided_choice": ["b"]}, "guided_choice", 400),
    ("completions", {"prompt": "Hi", "structured_outputs": {"yaml": 1}}, "structured_outputs.yaml", 400),
    ("completions", {"prompt": "Hi", "model": "other"}, None, 404),
    ("completions", {"prompt": "Hi", "model": None}, "model", 400),
    ("completions", {"prompt": "x" * 30_000}, None, 413),
    ("chat/completions", {"messages": []}, "messages", 400),
    ("chat/completions", {"messages": ["Hi"]}, "messages[0]", 400),
    ("chat/completions", {"messages": [{"role": "wizard", "content": "Hi"}]}, "messages", 400),
    ("chat/completions", {"messages": [{"role": "user", "content": None}]}, "messages[0].content", 400),
    (
        "chat/completions",
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        "messages[0].content",
        400,
    ),
    ("chat/completions", {**CHAT, "top_logprobs": 2}, "top_logprobs", 400),
    ("chat/completions", {**CHAT, "tools": [{"type": "function"}]}, "tools[0]", 400),
    ("chat/completions", {**CHAT, "tools": [{"type": "function", "function": {"name": "f"}}]}, "tools", 400),
    ("chat/completions", {**CHAT, "tool_choice": "required"}, "tool_choice", 400),
    ("chat/completions", {**CHAT, "functions": [{"name": "f"}]}, "functions", 400),
    ("chat/completions", {**CHAT, "response_format": {"type": "yaml"}}, "response_format", 400),
    ("chat/completions", {**CHAT, "response_format": {"type": "json_schema"}}, "response_format", 400),
    ("chat/completions", {**CHAT, "prompt": "Hi"}, "prompt", 400),
]


@pytest.mark.parametrize("is_stream", [False, True])
def test_bad_input_gets_the_apis_errors(server: RunningServer, is_stream: bool) -> None:
    for path, body, param, status in BAD:
        text = json.dumps({"model": "tiny", **({"stream": True} if is_stream else {}), **body})
        answer = server.post(f"/v1/{path}", content=text)
        assert answer.status_code == status, (body, answer.text)
        error = answer.json()["error"]
        assert error["type"] == "invalid_request_error"
        assert error["param"] == param, (body, error)
        assert error["message"] and error["code"]
    assert server.complete(max_tokens=1).status_code == 200, "the server is still up"


def test_bodies_that_are_no_json_objects(server: RunningServer) -> None:
    for raw in (b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 5000, b'{"prompt": "\\ud800"}'):
        answer = server.post("/v1/completions", content=raw)
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "invalid_json"
    assert server.get("/v1/completions").status_code == 405
    assert server.get("/v1/nothing").json()["error"]["code"] == "not_found"
    assert server.get("/v1/models/other").status_code == 404


def test_the_client_raises_its_own_errors(client: Any) -> None:
    with pytest.raises(openai.BadRequestError, match="context"):
        client.completions.create(**GREEDY, prompt="Hi", max_tokens=5000)
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="other", prompt="Hi")


def test_a_client_that_goes_away_frees_its_blocks(server: RunningServer) -> None:
    for is_stream in (True, False):
        body = {"model": "tiny", "prompt": "Hello", "max_tokens": 500, "stream": is_stream, "n": 8}
        with httpx.Client(timeout=httpx.Timeout(30, read=30 if is_stream else 0.3)) as gone:
            if is_stream:
                with gone.stream("POST", f"{server.url}/v1/completions", json=body) as answer:
                    next(answer.iter_lines())
            else:
                with pytest.raises(httpx.ReadTimeout):
                    gone.post(f"{server.url}/v1/completions", json=body)
        server.until_idle()
    assert 'reason="abort"' in server.get("/metrics").text


def test_metrics_count_what_happened(server: RunningServer) -> None:
    def value(name: str) -> float:
        lines = server.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.split("{")[0].split(" ")[0] == name)

    before = {name: value(name) for name in ("toprope_output_tokens_total", "toprope_requests_total")}
    assert server.complete(max_tokens=7).status_code == 200
    assert value("toprope_output_tokens_total") - before["toprope_output_tokens_total"] == 7
    assert value("toprope_requests_total") - before["toprope_requests_total"] == 1
    assert value("toprope_time_to_first_token_seconds_count") > 0
    stats = server.get("/stats").json()
    assert stats["steps"][-1]["size"] == 1
    assert stats["latency_ms"]["first_token"]["p50"] > 0


def test_many_clients_at_once_get_the_answers_they_would_get_alone(server: RunningServer) -> None:
    def ask(seed: int) -> str:
        return server.complete(prompt="abc" * (seed % 5 + 1), seed=seed, max_tokens=10).json()["choices"][0]["text"]

    alone = [ask(seed) for seed in range(12)]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        assert list(pool.map(ask, range(12))) == alone
    server.until_idle()


def test_a_dead_worker_costs_its_requests_and_comes_back(server: RunningServer) -> None:
    engine = server.server.engine
    pid = engine.pid
    assert pid is not None
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        whole = pool.submit(server.complete, max_tokens=500, n=32)
        streamed = pool.submit(server.complete, max_tokens=500, n=32, stream=True)
        server.until(lambda: engine.in_flight == 64, "both requests run")
        server.until(lambda: server.get("/stats").json()["running"] > 0, "the engine works on them")
        os.kill(pid, signal.SIGKILL)
        answer = whole.result()
        assert answer.status_code == 500
        assert answer.json()["error"]["code"] == "worker_crashed"
        assert answer.json()["error"]["type"] == "server_error"
        assert '"worker_crashed"' in streamed.result().text
    server.until(lambda: server.get("/health").status_code == 200, "the worker is back")
    assert engine.pid != pid
    assert server.complete(max_tokens=3).status_code == 200
    assert "toprope_engine_restarts_total 1.0" in server.get("/metrics").text
    server.until_idle()


def test_limits_of_queue_and_time(folder: Path) -> None:
    limits = SchedulerLimits(max_batch_size=1, max_tokens=16, max_queued=1)
    with running_server(folder, limits=limits, request_timeout_s=2.0) as small:
        answer = small.complete(n=4, max_tokens=400)
        assert answer.status_code == 429
        assert answer.json()["error"]["type"] == "rate_limit_error"
        assert answer.headers["retry-after"] == "1"
        small.until_idle()
        # Far below what 500 steps can take on any machine.
        small.server._options = type(small.server._options)("tiny", request_timeout_s=0.001)
        slow = small.complete(max_tokens=500)
        assert slow.status_code == 504
        assert slow.json()["error"]["code"] == "request_timeout"
        streamed = small.complete(max_tokens=500, stream=True).text
        assert "request_timeout" in streamed
        small.until_idle()


def serve_command(model: Path, port: int = 0) -> list[str]:
    return [sys.executable, "-m", "toprope.serve.http.server", str(model), "--port", str(port), "--served-model-name", "tiny",
            "--kv-gib", "0.01", "--max-tokens", "64", "--threads", "1"]  # fmt: skip


def test_a_signal_drains(folder: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(serve_command(folder, port), stderr=subprocess.PIPE, text=True)
    running = RunningServer(None, f"http://127.0.0.1:{port}")  # type: ignore[arg-type]

    def is_up() -> bool:
        try:
            return running.get("/health").status_code == 200
        except httpx.TransportError:
            assert process.poll() is None, process.stderr and process.stderr.read()
            return False

    running.until(is_up, "the server is up")
    with httpx.stream("POST", f"{running.url}/v1/completions", timeout=60,
                      json={"model": "tiny", "prompt": "Hi", "max_tokens": 200, "stream": True}) as answer:  # fmt: skip
        lines = answer.iter_lines()
        next(lines)
        process.send_signal(signal.SIGTERM)
        running.until(lambda: running.get("/health").json()["status"] == "draining", "the server drains")
        refused = running.complete()
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "engine_unavailable"
        assert [line for line in lines if line][-1] == "data: [DONE]", "the answer in flight is completed"
    assert process.wait(30) == 0


@pytest.mark.slow
def test_ten_thousand_requests_at_once_are_answered(folder: Path) -> None:
    with running_server(folder, limits=SchedulerLimits(max_batch_size=64, max_tokens=256)) as busy:
        answer = busy.complete(prompt=["ab"] * 10_000, max_tokens=1, temperature=0)
        assert answer.status_code == 200
        choices = answer.json()["choices"]
        assert [choice["index"] for choice in choices] == list(range(10_000))
        assert len({choice["text"] for choice in choices}) == 1
        busy.until_idle()


def _resident_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory use from /proc")
def test_a_soak_of_ten_thousand_requests_with_cancellations_leaks_nothing(folder: Path) -> None:
    rng = random.Random(0)
    statuses: dict[int | str, int] = {}

    async def one(client: Any, url: str) -> int | str:
        body = {"model": "tiny", "prompt": "ab" * rng.randint(1, 20), "max_tokens": rng.randint(1, 12),
                "stream": rng.random() < 0.5, "n": rng.choice((1, 1, 1, 3))}  # fmt: skip
        call = asyncio.create_task(client.post(f"{url}/v1/completions", json=body))
        if rng.random() < 0.3:
            await asyncio.sleep(rng.random() * 0.05)
            call.cancel()
        try:
            return (await call).status_code
        except asyncio.CancelledError:
            return "cancelled"

    async def crowd(url: str, count: int) -> None:
        left = iter(range(count))

        async def visitor(client: Any) -> None:
            for _ in left:
                status = await one(client, url)
                statuses[status] = statuses.get(status, 0) + 1

        async with httpx.AsyncClient(timeout=60) as client:
            await asyncio.gather(*(visitor(client) for _ in range(24)))

    with running_server(folder, limits=SchedulerLimits(max_batch_size=32, max_tokens=256)) as busy:
        worker = busy.server.engine.pid
        assert worker is not None
        asyncio.run(crowd(busy.url, 3_000))
        busy.until_idle()
        warm_kib = _resident_kib(worker)
        asyncio.run(crowd(busy.url, 7_000))
        busy.until_idle()
        assert _resident_kib(worker) < warm_kib * 1.05 + 4096, "the engine grew over the last 7,000 requests"
        assert busy.server.engine.pid == worker, "the worker never died"
    assert set(statuses) == {200, "cancelled"} and sum(statuses.values()) == 10_000, statuses
    assert statuses["cancelled"] > 500, statuses


def test_every_error_has_a_page() -> None:
    pages = Path(__file__).parents[3] / "docs" / "errors"

    def codes(kind: type[TopropeError]) -> set[str]:
        return {kind.code}.union(*(codes(below) for below in kind.__subclasses__()))

    own = codes(ServeError) - {"serve-error", "bad-request"} | {BadWeights.code}
    assert not [code for code in sorted(own) if not (pages / f"{code}.md").exists()]


@pytest.mark.slow
def test_a_broken_model_does_not_start(tmp_path: Path) -> None:
    broken = save_model(tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"\x00" * 100)
    done = subprocess.run(serve_command(broken), capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "model.safetensors" in done.stderr
    done = subprocess.run(serve_command(tmp_path / "nowhere"), capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "nowhere" in done.stderr

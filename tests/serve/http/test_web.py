"""The web page in a real browser."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("uvicorn")

from tests.serve.http.running_server import running_server
from tests.serve.tiny_llama import save_model
from toprope.serve.batching.scheduler import SchedulerLimits

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]


def browse(url: str, profile: Path, *more: str) -> str:
    """The page's document after three seconds of its own time."""
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
               "--disable-background-networking", "--disable-component-update", "--disable-sync",
               f"--user-data-dir={profile}", "--virtual-time-budget=3000", "--window-size=1000,1300", *more, url]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120).stdout


def test_the_page_shows_what_the_engine_does(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "model")
    with running_server(folder, limits=SchedulerLimits(max_batch_size=6, max_tokens=64)) as server:
        is_over = threading.Event()

        def load() -> None:
            while not is_over.is_set():
                server.complete(prompt=["Hello", "Hi there"], n=4, max_tokens=300, ignore_eos=True)

        threads = [threading.Thread(target=load) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            server.until(lambda: server.get("/stats").json()["running"] == 6, "the batch is full")
            page = browse(f"{server.url}/", tmp_path / "profile", "--dump-dom")
        finally:
            is_over.set()
            for thread in threads:
                thread.join(60)
    assert re.search(r'id="state"[^>]*>ready · float32 · compiled kernels', page), page[:2000]
    assert re.search(r'id="running">[1-6]<', page)
    assert re.search(r'id="waiting">\d+<', page)
    assert page.count("<rect") > 5, "one bar per step"
    assert page.count('class="used"') > 6, "blocks in use"
    assert re.search(r"<td>time to first token</td><td>[\d.]+</td>", page)
    assert re.search(r"<td>cmpl-[0-9a-f]+-\d</td><td>running</td>", page)


def test_the_page_says_when_the_engine_is_gone(tmp_path: Path) -> None:
    with running_server(save_model(tmp_path / "model")) as server:
        engine = server.server.engine
        engine._spawn = lambda: None  # type: ignore[method-assign]  # it stays away
        engine._process.kill()
        server.until(lambda: server.get("/health").status_code == 503, "the crash is noticed")
        page = browse(f"{server.url}/", tmp_path / "profile", "--dump-dom")
    assert re.search(r'id="state"[^>]*class="bad"[^>]*>restarting', page)

"""Pages: what comes from outside stays text, and nothing but the page's own scripts may run."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markupsafe import Markup

import toprope
from toprope import pages
from toprope.commands import deps
from toprope.deps import dependences
from toprope.report import html, summary

KERNEL = """#include "kernel_operator.h"
extern "C" __global__ __aicore__ void k(GM_ADDR x, GM_ADDR z) {
  AscendC::GlobalTensor<float> zg; zg.SetGlobalBuffer((__gm__ float*)z, 64);
  AscendC::TPipe pipe; AscendC::TBuf<AscendC::TPosition::VECCALC> b; pipe.InitBuffer(b, 256); AscendC::LocalTensor<float> t = b.Get<float>();
  AscendC::Duplicate(t, 1.0f, 64); // %s
  // <img src=x onerror=document.title='PWNED'>
  AscendC::DataCopy(zg, t, 64);
}
"""
INJECTED = (
    "/*DATA*/null {{ 7*7 }} {% raw %}",
    "<!-- <script> ",
    "</script><script>alert(1)</script>",
    "</style><svg onload=alert(1)>",
    "]]></title>\u2028'\"",
)


class Elements(HTMLParser):
    """What a browser would see: each element with its attributes, and the text of scripts and style sheets."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.open = tag
        if tag in ("script", "style"):
            self.texts.append((tag, ""))

    def handle_data(self, data: str) -> None:
        if self.open in ("script", "style"):
            self.texts[-1] = (self.open, self.texts[-1][1] + data)

    def handle_endtag(self, tag: str) -> None:
        self.open = ""


def held(page: str) -> Elements:
    """The page's elements, after the checks that every page must pass."""
    seen = Elements(page)
    policy = next(a["content"] or "" for tag, a in seen.found if a.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert not [name for _, a in seen.found for name in a if name.startswith("on") or name in ("src", "href")]
    kinds = [a.get("type") for tag, a in seen.found if tag == "script"]
    scripts = [text for tag, text in seen.texts if tag == "script"]
    running = [text for kind, text in zip(kinds, scripts, strict=True) if kind != "application/json"]
    for texts, rule in ((running, "script-src"), ([t for tag, t in seen.texts if tag == "style"], "style-src-elem")):
        allowed = re.findall(r"'sha256-([^']+)'", rules[rule])
        # A drawing's script stands in a CDATA section, which is no part of its text.
        plain = [text.removeprefix("<![CDATA[").removesuffix("]]>") for text in texts]
        sums = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in plain]
        assert sorted(sums) == sorted(allowed), rule
    return seen


@pytest.mark.compiler
@pytest.mark.parametrize("injected", INJECTED)
def test_source_lines_come_out_as_text(injected: str, tmp_path: Path) -> None:
    source = tmp_path / "k.cpp"
    source.write_text(KERNEL % injected)
    run = toprope.load(source).k[1](np.zeros(64, np.float32), np.zeros(64, np.float32))
    page = html.page(summary.of(run, {}))
    seen = held(page)
    assert len([tag for tag, _ in seen.found if tag == "script"]) == 3 and not [t for t, _ in seen.found if t == "img"]
    data = json.loads(next(text for _, text in seen.texts if text.startswith("{")))
    (lines,) = data["sources"].values()
    assert injected.split("\u2028")[0] in "\n".join(lines) and "onerror=document.title='PWNED'" in lines[5]
    held(deps.page(dependences(run), False))


def test_values_are_escaped_wherever_they_stand(tmp_path: Path) -> None:
    (tmp_path / "t.html").write_text('<p class="{{ name }}">{{ text }}</p>{{ drawing }}')
    body = pages.fill(tmp_path / "t.html", name='"><b>', text="<i>&", drawing=Markup("<u>x</u>"))
    assert body == '<p class="&#34;&gt;&lt;b&gt;">&lt;i&gt;&amp;</p><u>x</u>'
    with pytest.raises(Exception, match="missing"):
        (tmp_path / "u.html").write_text("{{ missing }}")
        pages.fill(tmp_path / "u.html")
    seen = held(pages.page("<script>x</script>", body))
    assert [tag for tag, _ in seen.found].count("script") == 0


def test_data_reaches_the_script_whole() -> None:
    data: dict[str, Any] = {"b": "</script><!--<script>&'\u2028", "a": [1.5, float("inf"), float("nan"), None, True]}
    seen = held(pages.page("t", Markup("<p></p>"), script="document.title=D.b;", data=data))
    found = json.loads(next(text for _, text in seen.texts if text.startswith("{")))
    assert found == {"b": data["b"], "a": [1.5, None, None, None, True]} and list(found) == ["b", "a"]


@pytest.mark.parametrize("text", ["x='</script>'", "x='<!--'", "x='<SCRIPT'"])
def test_a_script_that_would_end_early_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="end"):
        pages.page("t", Markup(""), script=text)

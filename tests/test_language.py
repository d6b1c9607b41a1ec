"""The user's language: each finding and verb has its Chinese text, what gettext reads is what translators wrote."""

from __future__ import annotations

import argparse
import gettext
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from toprope.cli import VERBS, usage
from toprope.finding import Finding, Place, codes
from toprope.language import DOMAIN, FOLDER, language, say

SOURCES = sorted(FOLDER.glob("*/LC_MESSAGES/*.po"))


@pytest.fixture
def chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPROPE_LANG", "zh_CN.UTF-8")


@pytest.mark.parametrize("code", sorted(codes()))
def test_every_finding_has_a_chinese_title_and_cure(code: str, chinese: None) -> None:
    row = codes()[code]
    assert say(row.rule) != row.rule and say(row.cure) != row.cure


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_has_chinese_help(verb: str, chinese: None) -> None:
    what = VERBS[verb][1]
    assert say(what) != what and say(what) in usage()


@pytest.mark.parametrize("source", SOURCES, ids=lambda p: p.parts[-3])
def test_catalogues_are_what_translators_wrote(source: Path) -> None:
    polib = pytest.importorskip("polib")
    written = {e.msgid: e.msgstr for e in polib.pofile(str(source))}
    read = gettext.translation(DOMAIN, FOLDER, [source.parts[-3]])
    assert written and {text: read.gettext(text) for text in written} == written, "run: python -m toprope.language"
    fields = [(a, b) for a, b in written.items() if "{" in a]
    assert all(sorted(p for p in a.split("{")[1:]) and a.count("{") == b.count("{") for a, b in fields)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh_CN"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "de_DE", "TOPROPE_LANG": "zh"}, "zh_CN"),
        ({"LANG": "zh_CN", "TOPROPE_LANG": "en"}, "en"),
    ],
)
def test_the_locale_chooses(names: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOPROPE_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    assert language() == expected


def test_a_finding_in_chinese(chinese: None) -> None:
    row = codes()["tensor-freed-twice"]
    text = str(Finding("tensor-freed-twice", "error", "q gave it back", (Place("k.cpp", 3),), cure=row.cure, count=2))
    assert text.splitlines()[0] == f"tensor-freed-twice: {say(row.rule)}" and "q gave it back" in text
    assert text.splitlines()[-1] == f"修复: {say(row.cure)}" and "共出现 2 次" in text
    own = str(Finding("tensor-freed-twice", "error", "m", cure="something particular"))
    assert say(row.cure) in own and "something particular" in own


def test_english_says_what_it_always_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPROPE_LANG", "en")
    assert str(Finding("tensor-freed-twice", "error", "m", cure="c")) == "tensor-freed-twice: m\ncure: c"


def test_help_of_a_verb_in_chinese() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "toprope.cli", "doctor", "--help"],
        capture_output=True,
        text=True,
        env={"TOPROPE_LANG": "zh", "PATH": "", "PYTHONIOENCODING": "utf-8"},
        check=True,
    )
    assert "检查本机环境" in done.stdout and "输出机器可读的结果" in done.stdout and "选项" in done.stdout


@pytest.mark.parametrize(
    "verb", ["run", "check", "profile", "debug", "tune", "test", "editor", "completion", "plan-serve", "exec"]
)
def test_every_option_of_a_verb_has_chinese_help(verb: str, chinese: None, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def look(parser: argparse.ArgumentParser, *_: object) -> None:
        seen.extend(str(a.help) for a in parser._actions if a.help and a.help != argparse.SUPPRESS)
        raise SystemExit(0)

    for method in ("parse_args", "parse_intermixed_args", "parse_known_args"):
        monkeypatch.setattr(argparse.ArgumentParser, method, look)
    with pytest.raises(SystemExit):
        import_module(VERBS[verb][0]).main([])
    # A list of names that the text is made of is the same in every language.
    assert [text for text in seen if say(text) == text and len(text) > 6 and not text.startswith("preset (")] == []

"""Text from tokens as they come: whole characters only, stop strings never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serve.tiny_llama import save_model
from toprope.serve.engine.text_stream import TextStream
from toprope.serve.model.tokenizer import BadChat, Tokenizer, open_tokenizer

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """One token per byte, so every character outside ASCII arrives in parts."""
    return open_tokenizer(save_model(tmp_path_factory.mktemp("model")))


def stream(tokenizer: Tokenizer, text: str, stop: tuple[str, ...] = ()) -> tuple[list[str], bool]:
    out, reader = [], TextStream(tokenizer, tokenizer.encode("Hi"), stop)
    for token in tokenizer.encode(text):
        out.append(reader.push(token))
        if reader.stopped:
            break
    return [*out, reader.finish()], reader.stopped


def test_characters_come_whole(tokenizer: Tokenizer) -> None:
    parts, _ = stream(tokenizer, "aé漢🎉")
    assert [p for p in parts if p] == ["a", "é", "漢", "🎉"]


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_parts_add_up_to_the_text(tokenizer: Tokenizer, text: str) -> None:
    parts, _ = stream(tokenizer, text)
    assert "".join(parts) == text


@settings(max_examples=200, deadline=None)
@given(st.text("ab\n", max_size=20), st.lists(st.text("ab\n", min_size=1, max_size=4), min_size=1, max_size=3))
def test_text_ends_before_the_first_stop_string(tokenizer: Tokenizer, text: str, stops: list[str]) -> None:
    parts, stopped = stream(tokenizer, text, tuple(stops))
    # A stop string counts when its last character arrives; of several that end together the earliest start cuts.
    ends = [(text.find(s) + len(s), text.find(s)) for s in stops if s in text]
    if not ends:
        assert not stopped
        assert "".join(parts) == text
        return
    first_end = min(end for end, _ in ends)
    seen = text[:first_end]
    assert stopped
    assert "".join(parts) == text[: min(seen.find(s) for s in stops if s in seen)]


def test_a_broken_character_at_the_end_is_shown_as_such(tokenizer: Tokenizer) -> None:
    reader = TextStream(tokenizer, [], ())
    token = tokenizer.encode("é")[0]
    assert reader.push(token) == ""
    assert reader.finish() == "\ufffd"


def test_chat_template(tokenizer: Tokenizer) -> None:
    text = tokenizer.chat([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])
    assert text == "system: Be brief.\nuser: Hi\nassistant:"
    with pytest.raises(BadChat, match="unknown role wizard"):
        tokenizer.chat([{"role": "wizard", "content": "Hi"}])


def test_a_template_cannot_reach_out_of_its_sandbox(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "m")
    (folder / "chat_template.jinja").write_text("{{ messages.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(BadChat, match="unsafe"):
        open_tokenizer(folder).chat([])


def test_end_token_is_not_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode([tokenizer.encode("x")[0], 256]) == "x"
    assert tokenizer.token_text(256) == "<end>"

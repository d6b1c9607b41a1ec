"""Every reader of users' files: a good file is taken, a damaged one is read or refused in one message that names it."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.commands import damage

QUICK = [name for name in damage.READERS if name not in damage.SLOW]


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch):
    """Readers look for the user's own chips here; the setting is undone afterwards."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "")


@pytest.mark.parametrize("name", damage.READERS)
def test_a_good_file_is_taken(name, tmp_path):
    reader = damage.READERS[name]
    code, out, err = damage.answer(reader, damage.good(reader), tmp_path)
    assert code in (0, 1) and "bad-input" not in err, (code, out, err)


@pytest.mark.parametrize("name", damage.READERS)
@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", None], ids=["empty", "binary", "folder"])
def test_no_file_at_all(name, content, tmp_path):
    assert damage.fault(damage.READERS[name], content, tmp_path) == ""


def _try(name: str, draw: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert damage.fault(damage.READERS[name], damage.damaged(damage.READERS[name], draw), Path(folder)) == ""


@pytest.mark.parametrize("name", QUICK)
@settings(
    max_examples=4,
    phases=[Phase.generate],
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
)
@given(draw=st.randoms(use_true_random=False))
def test_a_damaged_file_is_one_message(name, draw):
    _try(name, draw)


@pytest.mark.slow
@pytest.mark.parametrize("name", damage.READERS)
@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(draw=st.randoms(use_true_random=False))
def test_many_damaged_files(name, draw):
    _try(name, draw)


def test_a_message_is_judged():
    """The judge sees what it is there for."""
    assert damage.judged(4, "", "internal-error: x", False)
    assert damage.judged(2, "", "bad-input: something", False, "a.toml")
    assert damage.judged(2, "", "bad-input: a.toml\ncure: x\nbad-input: a.toml\ncure: y", False, "a.toml")
    assert damage.judged(1, "text", "", True)
    assert damage.judged(2, "", "bad-input: a.toml: x\ncure: y", False, "a.toml") == ""

"""The user's language: `TOPROPE_LANG`, else the locale. Texts by gettext; what has no translation stays English."""

from __future__ import annotations

import argparse
import gettext
import os
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
DOMAIN = "toprope"


@cache
def _texts(language: str) -> gettext.NullTranslations:
    return gettext.translation(DOMAIN, FOLDER, [language], fallback=True)


def language() -> str:
    """`zh_CN` or `en`, by the first of TOPROPE_LANG, LC_ALL, LC_MESSAGES and LANG that is set."""
    names = (os.environ.get(name, "") for name in ("TOPROPE_LANG", "LC_ALL", "LC_MESSAGES", "LANG"))
    return "zh_CN" if next(filter(None, names), "").lower().startswith("zh") else "en"


def say(text: str) -> str:
    """A text in the user's language."""
    return _texts(language()).gettext(text) if text else text


def translate_help() -> None:
    """Make every parser of this process print its help in the user's language, wherever it is written."""
    if language() == "en":
        return
    plain = argparse.ArgumentParser.format_help

    def format_help(self: argparse.ArgumentParser) -> str:
        for action in self._actions:
            action.help = say(action.help) if action.help else action.help
        for group in self._action_groups:
            group.title = say(group.title) if group.title else group.title
        self.description, self.epilog = say(self.description or ""), say(self.epilog or "")
        return plain(self)

    argparse.ArgumentParser.format_help = format_help  # type: ignore[method-assign]  # no seam for it in the library

"""The site's links out of docs/: they stay readable there, and must exist in the checkout.

Pages link files of the repository (`../tests/kernels/queues.md`), which are no part of the site; a folder of pages is its list. A link to
something that is not there is a warning, which `--strict` makes an error.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_log = logging.getLogger("mkdocs.hooks.site_links")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links that leave docs/, and links to folders, as names of what they point to."""
    docs = Path(config["docs_dir"])
    here = (docs / page.file.src_uri).parent

    def kept(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        place = (here / target).resolve()
        inside = docs in place.parents and place.is_file()
        if inside:
            return match[0]
        if not place.exists():
            _log.warning("%s links %s, which does not exist", page.file.src_uri, target)
        return f"{text} (`{place.relative_to(docs.parent).as_posix()}`)" if place.is_relative_to(docs.parent) else text

    return _LINK.sub(kept, markdown)

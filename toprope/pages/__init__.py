"""Every HTML page that toprope writes: one frame, one palette, text that stays text.

Templates are jinja2 with autoescape: whatever comes from a kernel, a file or a command line is escaped where it is put in. A page loads nothing,
and its Content-Security-Policy names the scripts and style sheets that it carries by their digests: any other script in it does not run.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

_HERE = Path(__file__).parent
_ENDS = re.compile(r"</(?:script|style)|<!--|<script", re.I)
# The colours of series: pipes by name, anything else in turn.
PIPES = {
    "S": "#8d99a6",
    "V": "#d9534f",
    "M": "#7b4bb3",
    "MTE1": "#2f9e8f",
    "MTE2": "#2b79c9",
    "MTE3": "#e08a1e",
    "FIX": "#8a6d3b",
    "ALL": "#555555",
}
SERIES = ("#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#0e7490", "#8a6d3b")


def fill(template: Path, **values: Any) -> Markup:
    """A template with its values, escaped; a value that the template misses is an error."""
    return Markup(_environment(template.parent).get_template(template.name).render(**values))


def page(
    title: str,
    body: Markup,
    *,
    style: str = "",
    script: str = "",
    data: Any = None,
    inline_styles: Sequence[str] = (),
    inline_scripts: Sequence[str] = (),
) -> str:
    """A complete page. `data` reaches the script as the constant D.

    `inline_styles` and `inline_scripts` are texts of elements that the body brings along itself, such as a drawing's: they are allowed, too.
    """
    palette = (_HERE / "palette.css").read_text()
    script = (
        f'"use strict";const D=JSON.parse(document.getElementById("data").textContent);\n{script}' if script else ""
    )
    styles = [palette + style, *inline_styles]
    scripts = [*([script] if script else []), *inline_scripts]
    for text in (*styles, *scripts):
        if _ENDS.search(text):
            raise ValueError("a script or style sheet of a page may not contain its element's end or a comment's begin")
    policy = (
        f"default-src 'none'; script-src {_digests(scripts)}; style-src-elem {_digests(styles)}; style-src-attr 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )
    frame = _environment(_HERE).get_template("frame.html")
    return frame.render(
        title=title,
        body=body,
        style=Markup(styles[0]),
        script=Markup(script),
        data=_finite(data),
        policy=Markup(policy),
    )


def _finite(data: Any) -> Any:
    """The same data with null for what JSON has no word for: infinities and NaN."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    return [_finite(value) for value in data] if isinstance(data, list | tuple) else data


def _digests(texts: Sequence[str]) -> str:
    sums = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
    return " ".join(f"'sha256-{d}'" for d in sums) or "'none'"


@cache
def _environment(folder: Path) -> Environment:
    made = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.policies["json.dumps_kwargs"] = {"sort_keys": False, "separators": (",", ":")}
    return made


def card(title: str, rows: Iterable[tuple[str, str]], notes: Iterable[tuple[str, str]]) -> str:
    """A few lines for a notebook: a title, rows of name and value, and notes of a severity each, whose text may hold anything."""
    colour = {"error": "#b00020", "warning": "#8a5a00"}
    cells = Markup("").join(Markup("<tr><td>{}</td><td>{}</td></tr>").format(name, value) for name, value in rows)
    told = Markup("").join(
        Markup('<pre style="color:{}">{}: {}</pre>').format(colour.get(severity, "inherit"), severity, text)
        for severity, text in notes
    )
    return str(Markup("<div><b>{}</b><table>{}</table>{}</div>").format(title, cells, told))

"""The table of the vendor's report kinds in docs/sanitizer.md: `python -m tests.check.vendor_table` writes it from vendor_kinds.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

MANUAL = Path(__file__).parent.parent.parent / "docs" / "sanitizer.md"
BEGIN, END = "<!-- vendor kinds -->\n", "<!-- /vendor kinds -->"


def kinds() -> list[dict[str, Any]]:
    """The rows of vendor_kinds.toml."""
    rows: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("vendor_kinds.toml").read_text())["kind"]
    return rows


def text() -> str:
    """A sentence with the count and the table, in Markdown."""
    rows = kinds()
    open_rows = [r for r in rows if not r["codes"]]
    lines = [
        f"{len(rows) - len(open_rows)} of {len(rows)} kinds have findings of ours; the others say why not.",
        "",
        "| tool | kind | finding | shown in |",
        "|---|---|---|---|",
    ]
    for row in rows:
        codes = ", ".join(f"[{c}](errors/{c}.md)" for c in row["codes"]) or f"– ({row['why']})"
        page = f"[{row['page']}](../tests/kernels/{row['page']}.md)" if row["codes"] else ""
        lines.append(f"| {row['tool']} | {row['says']} | {codes} | {page} |")
    return "\n".join(lines) + "\n"


def in_manual(manual: str) -> str:
    """The manual with the table as it should be."""
    return re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: BEGIN + text() + END, manual, flags=re.S)


if __name__ == "__main__":
    MANUAL.write_text(in_manual(MANUAL.read_text()))

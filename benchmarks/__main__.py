"""Run benchmarks and keep their figures: python -m benchmarks [NAME ...].

Each file of this folder answers one question and prints one JSON object; its words after the name are passed on. Results go to
out/bench/NAME.json, a table to the screen.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The figures of a result with their dotted names."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for i, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{inner.get('name', i)}]")
    else:
        yield path, value


def main(argv: list[str]) -> int:
    known = sorted(p.stem for p in HERE.glob("*.py") if not p.stem.startswith("_"))
    wanted = [a for a in argv if not a.startswith("-")] or known
    options = [a for a in argv if a.startswith("-")]
    unknown = [w for w in wanted if w not in known]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    out = HERE.parent / "out" / "bench"
    out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in wanted:
        done = subprocess.run(
            [sys.executable, str(HERE / f"{name}.py"), *options], capture_output=True, text=True, cwd=HERE.parent
        )
        if done.returncode:
            failed += 1
            print(f"{name}: failed\n{done.stderr}", file=sys.stderr)
            continue
        result = json.loads(done.stdout)
        (out / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
        table = Table(title=name, title_justify="left", box=None, show_header=False, padding=(0, 2, 0, 2))
        for path, figure in leaves(result):
            table.add_row(path, f"{figure:.4g}" if isinstance(figure, float) else str(figure))
        Console(highlight=False).print(table)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Finished points on disk: one line each, written before the next one begins, so that an end at any moment loses none."""

from __future__ import annotations

import json
import os
from pathlib import Path

from toprope.cache import cache_dir
from toprope.tune.measure import Measure
from toprope.tune.space import Point


class Store:
    """The measures of one subject by point; `key` is the digest of all that they depend on."""

    def __init__(self, key: str, folder: Path | None = None) -> None:
        self.path = (folder or cache_dir() / "tune") / f"{key}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._found: dict[tuple[tuple[str, int], ...], Measure] = {}
        whole = self.path.read_bytes() if self.path.is_file() else b""
        if whole and not whole.endswith(b"\n"):  # the last line was being written when the process ended
            whole = whole[: whole.rfind(b"\n") + 1]
            self.path.write_bytes(whole)
        for line in whole.splitlines():
            try:
                row = json.loads(line)
                self._found[_key(row["point"])] = Measure(**row["measure"])
            except (ValueError, KeyError, TypeError):
                continue

    def __len__(self) -> int:
        return len(self._found)

    def get(self, point: Point) -> Measure | None:
        """What is known of a point."""
        return self._found.get(_key(point))

    def put(self, point: Point, measure: Measure) -> None:
        """Keep a point, on disk when this returns."""
        self._found[_key(point)] = measure
        with self.path.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"point": dict(point), "measure": measure.as_row()}) + "\n")
            out.flush()
            os.fsync(out.fileno())


def _key(point: Point) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(point.items()))

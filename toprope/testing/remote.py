"""Sweeps over many machines: cases in batches as Ray tasks, results stored as they come back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from toprope.testing.errors import CaseError
from toprope.testing.execution import ERROR, Result, execute
from toprope.testing.readers import find_suites
from toprope.testing.runners import runner_from

BATCH = 16


def sweep(
    path: Path, keys: Sequence[str], *, run: str = "", soc: str = "", standard: str = "", address: str = ""
) -> Iterator[Result]:
    """Run the cases with the given keys below `path` on a Ray cluster; results come in the order they finish.

    address  of a running cluster; empty starts a local one with this machine's cores. The files must be at the same path
    on every machine. A batch whose machine is lost gives error results; the others are unaffected.
    """
    try:
        # Ray is the optional extra "ray", and importing it takes seconds.
        import ray
    except ImportError as error:
        raise CaseError("--on ray needs Ray", cure="pip install toprope[ray]") from error
    started = not ray.is_initialized()
    if started:
        ray.init(address=address or None, log_to_driver=False, include_dashboard=False, configure_logging=False)
    try:
        task: Any = ray.remote(max_retries=2)(_batch)
        batches = [list(keys[i : i + BATCH]) for i in range(0, len(keys), BATCH)]
        waiting = {task.remote(str(path), batch, run, soc, standard): batch for batch in batches}
        while waiting:
            done, _ = ray.wait(list(waiting), num_returns=1)
            batch = waiting.pop(done[0])
            try:
                rows = ray.get(done[0])
            except Exception as error:
                rows = [_lost(key, error).as_dict() for key in batch]
            yield from (Result.from_dict(row) for row in rows)
    finally:
        if started:
            ray.shutdown()


def _batch(path: str, keys: Sequence[str], run: str, soc: str, standard: str) -> list[dict[str, Any]]:
    wanted = set(keys)
    rows = []
    for suite in find_suites(Path(path)):
        chosen = [case for case in suite.cases if f"{suite.name}::{case.name}" in wanted]
        if not chosen:
            continue
        runner = runner_from(
            run or str(suite.settings.get("run", "")) or "golden", suite, soc=soc, settings=suite.settings
        )
        rows += [execute(suite, case, runner, standard=standard).as_dict() for case in chosen]
    return rows


def _lost(key: str, error: Exception) -> Result:
    suite, _, case = key.partition("::")
    return Result(suite, case, "given", ERROR, message=f"the machine that ran this batch was lost: {error}"[:300])

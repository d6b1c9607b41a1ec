"""Run a gen_data.py / verify_result.py pair: the generator, the operator's program, the verifier; judged by the scripts."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from toprope.testing.errors import CaseError, TestingError
from toprope.testing.execution import ERROR, FAILED, PASSED, Result
from toprope.testing.readers import scripts


def execute_pair(pair: scripts.ScriptPair, command: str = "", *, timeout_s: float = 120) -> Result:
    """The pair's verdict on `command`, a shell line run in the workspace; without one, golden is handed in as the result.

    The command sees ./input and ./output as the sample's own program does.
    """
    start = time.perf_counter()
    result = Result("scripts", pair.name, "given", PASSED, standard="the pair's own verifier")
    workspace = Path(tempfile.mkdtemp(prefix="toprope_pair_"))
    try:
        if command:
            generated = scripts.generate(pair, workspace, timeout_s=timeout_s)
            _run(command, workspace, timeout_s)
            result.message = _last_line(scripts.verify(generated, timeout_s=timeout_s))
        else:
            scripts.self_check(pair, workspace, timeout_s=timeout_s)
            result.message = "golden against golden: the verifier is content"
    except CaseError as error:
        result.status = FAILED if "verif" in error.where else ERROR
        result.message = str(error)
    except TestingError as error:
        result.status, result.message = ERROR, str(error)
    finally:
        shutil.rmtree(workspace, ignore_errors=True)
    result.seconds = time.perf_counter() - start
    return result


def _run(command: str, workspace: Path, timeout_s: float) -> None:
    try:
        done = subprocess.run(
            command, shell=True, cwd=workspace, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CaseError(f"the command runs longer than {timeout_s:g} s", where=command) from error
    if done.returncode != 0:
        raise CaseError(
            f"the command exits with {done.returncode}: {_last_line(done.stderr or done.stdout)}", where=command
        )


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""

"""How many instructions a second does predict() schedule, and how much memory does it take, on traces of millions of instructions?

Three kernels of toprope/validation, run without arithmetic: copies (128-byte copies from GM on 48 cores: every instruction meets the
shared memory), add (load, add and store on 48 cores) and matmul (8192 x 8192 x 8192 on 24 cores). Prints one JSON object; ratios are
taken within one run, and seconds are processor time.
"""

from __future__ import annotations

import json
import resource
import time
from dataclasses import replace
from typing import Any

from toprope.timing import predict
from toprope.validation import experiment

CASES = {"copies": ("data_copy", "s1"), "add": ("add", "c2"), "matmul": ("matmul", "c8")}


def measure(kernel: str, name: str) -> dict[str, Any]:
    row = next(r for r in experiment.published() if (r.kernel, r.id) == (kernel, name))
    started = time.process_time()
    run = experiment.launch(replace(row, part=1))
    recorded = time.process_time()
    timeline = predict(run.trace, run.soc)
    predicted = time.process_time()
    count = len(run.trace.instrs)
    return {
        "instructions": count,
        "trace_bytes_per_instruction": round(run.trace.bytes_per_instruction, 1),
        "instructions_per_s": round(count / (predicted - recorded)),
        "predict_s": round(predicted - recorded, 3),
        "predict_over_record": round((predicted - recorded) / (recorded - started), 2),
        "predicted_us": round(timeline.microseconds, 2),
    }


def main() -> None:
    measure(*CASES["add"])  # compiles the scheduler before the clock starts
    result: dict[str, Any] = {case: measure(*row) for case, row in CASES.items()}
    result["peak_memory_gb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()

"""How long do 1,000 cases of a two-input operator take: the plans alone, and with all input data made?

Writes one JSON object: seconds, elements made, and the ratio of the data's time to one bare generator call for as many
uniform float32 numbers in the same run.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from toprope.testing import Signature, Tensor, generate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    arguments = parser.parse_args()
    dtypes = ("float32", "float16", "bfloat16", "int32")
    add = Signature("add", (Tensor("x", dtypes), Tensor("y", "same:x", "broadcast:x")))
    start = time.perf_counter()
    cases = generate(add, arguments.cases)
    planned = time.perf_counter() - start
    elements = sum(array.size for case in cases for array in case.arrays())
    made = time.perf_counter() - start
    start = time.perf_counter()
    np.random.default_rng(0).random(elements, dtype=np.float32)
    bare = time.perf_counter() - start
    result = {
        "cases": len(cases),
        "plans_s": round(planned, 3),
        "plans_and_data_s": round(made, 3),
        "elements": elements,
        "data_per_bare_uniform": round((made - planned) / bare, 2),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()

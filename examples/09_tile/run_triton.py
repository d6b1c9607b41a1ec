"""A Triton gather on the software NPU: `python examples/09_tile/run_triton.py`. Triton need not be installed."""

from pathlib import Path

import numpy as np

from toprope import tile

gather = tile.triton(Path(__file__).with_name("triton_kernels.py"), "gather_kernel")

if __name__ == "__main__":
    rng = np.random.default_rng(0)
    table, ids = rng.standard_normal((1000, 200)).astype(np.float16), rng.integers(0, 1000, 77).astype(np.int32)
    out, level_a = np.zeros((77, 200), np.float16), np.zeros((77, 200), np.float16)
    grid = (-(-77 // 16), -(-200 // 128))
    gather[grid](ids, table, level_a, 77, 200, 200, ROWS=16, COLUMNS=128)
    run = gather.run(grid, ids, table, out, 77, 200, 200, ROWS=16, COLUMNS=128)
    print(gather.source(ids_ptr=tile.i32, table_ptr=tile.f16, out_ptr=tile.f16, ROWS=16, COLUMNS=128))
    print(run.timeline, run.findings or "no finding")
    print("the same bits as NumPy and as level A:", np.array_equal(out, table[ids]) and np.array_equal(out, level_a))

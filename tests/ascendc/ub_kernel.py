"""Kernels for tests of vector functions: every buffer is copied from GM to UB, the body runs, every buffer is copied back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from toprope.kernel import KernelFile

# Once per translation unit; not inlined, so that many kernels compile fast.
FRAME = """
struct Frame {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffers[8];
    LocalTensor<uint8_t> tensors[8];
    GlobalTensor<uint8_t> globals[8];
    int32_t count = 0;
    __attribute__((noinline)) void add(GM_ADDR gm, int32_t bytes) {
        pipe.InitBuffer(buffers[count], bytes);
        tensors[count] = buffers[count].Get<uint8_t>();
        globals[count].SetGlobalBuffer((__gm__ uint8_t*)gm, bytes);
        DataCopy(tensors[count], globals[count], bytes);
        ++count;
    }
    __attribute__((noinline)) void store() {
        PipeBarrier<PIPE_ALL>();
        for (int32_t i = 0; i < count; ++i) DataCopy(globals[i], tensors[i], tensors[i].GetSize());
    }
};
"""


def ub_kernel(name: str, buffers: dict[str, str], body: str, scalars: Sequence[str] = ()) -> str:
    """C++ text of a kernel `name(buffer, bytes, ..., scalars)`; buffers maps a tensor's name in the body to its element type."""
    arguments = [f"GM_ADDR {b}_gm, int32_t {b}_bytes" for b in buffers] + [f"int32_t {s}" for s in scalars]
    lines = [f'extern "C" __global__ __aicore__ void {name}({", ".join(arguments)}) {{', "    Frame frame;"]
    lines += [f"    frame.add({b}_gm, {b}_bytes);" for b in buffers]
    lines += [
        f"    LocalTensor<{t}> {b} = frame.tensors[{i}].ReinterpretCast<{t}>();"
        for i, (b, t) in enumerate(buffers.items())
    ]
    lines += ["    PipeBarrier<PIPE_ALL>();", f"    {body}", "    frame.store();"]
    return "\n".join([*lines, "}", ""])


def call(file: KernelFile, name: str, *arguments: Any, soc: str = "ascend910b1") -> Any:
    """Runs the kernel on one core; NumPy arguments are changed in place. Their size must be a multiple of 32 bytes."""
    flat: list[Any] = []
    for a in arguments:
        if isinstance(a, np.ndarray):
            assert a.nbytes % 32 == 0, f"{a.nbytes} bytes"
            flat += [a, a.nbytes]
        else:
            flat.append(a)
    return getattr(file, name)[1](*flat, soc=soc)


def mistakes(run: Any) -> set[str]:
    """Codes of the findings that are errors or warnings."""
    return {f.code for f in run.findings if f.severity != "advice"}


def random_of(dtype: Any, size: int, seed: int = 0) -> np.ndarray:
    """Values of both signs, of moderate size, with ties; the same for the same seed."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, size, dtype=dtype, endpoint=True)
    return rng.choice(np.round(rng.standard_normal(size) * 4, 3), size).astype(dtype)


Oracle = Callable[..., Any]

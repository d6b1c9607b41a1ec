"""The header library without Python: an ordinary C++ program with a kernel in it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from toprope.build import compiler
from toprope.vendor_paths import INCLUDE

ADD = Path(__file__).parent.parent / "examples" / "01_add" / "add_custom.cpp"
PROGRAM = """
#include "{kernel}"
#include "standalone.h"
#include <cstdio>
#include <cstdlib>

int main() {{
    const uint32_t n = 8 * 2048, bytes = n * sizeof(half);
    auto* x = static_cast<half*>(std::malloc(bytes));
    auto* y = static_cast<half*>(std::malloc(bytes));
    auto* z = static_cast<half*>(std::malloc(bytes));
    for (uint32_t i = 0; i < n; i++) {{ x[i] = half(i % 100); y[i] = half(i % 7); }}
    using P = GM_ADDR;
    int mistakes = toprope::standalone::launch(add_custom, 8, {{{{x, {size}, "x"}}, {{y, bytes, "y"}}, {{z, bytes, "z"}}}}, P(x), P(y), P(z), n);
    for (uint32_t i = 0; i < n; i++) mistakes += float(z[i]) != float(i % 100 + i % 7) ? 1000000 : 0;
    return mistakes == 0 ? 0 : 1;
}}
"""


def run(folder: Path, size: str) -> subprocess.CompletedProcess[str]:
    source, program = folder / "program.cpp", folder / "program"
    source.write_text(PROGRAM.format(kernel=ADD, size=size))
    subprocess.run(
        [*compiler().command, "-std=c++17", "-O1", "-w", f"-I{INCLUDE}", str(source), "-o", str(program)], check=True
    )
    return subprocess.run([str(program)], capture_output=True, text=True)


def test_a_program_runs_its_kernel(tmp_path: Path) -> None:
    done = run(tmp_path, "bytes")
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_a_mistake_is_printed_with_its_line(tmp_path: Path) -> None:
    done = run(tmp_path, "bytes / 2")
    assert done.returncode == 1 and "gm-out-of-bounds" in done.stderr and "add_custom.cpp:35" in done.stderr

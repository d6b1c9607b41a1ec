"""Tiling structs: layouts as the compiler sees them, mappings packed into bytes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from toprope import tiling
from toprope.errors import BadArgument

SOURCE = """
struct Inner { uint8_t a; uint32_t b; };
struct AddTiling { uint32_t total; uint16_t small; uint64_t big; float scale; uint32_t list[3]; Inner inner; };
extern "C" __global__ __aicore__ void by_value(AddTiling t, GM_ADDR out) {
    GlobalTensor<float> o;
    o.SetGlobalBuffer((__gm__ float*)out);
    o.SetValue(0, t.total); o.SetValue(1, t.small); o.SetValue(2, t.big); o.SetValue(3, t.scale); o.SetValue(4, t.list[2]); o.SetValue(5, t.inner.b);
}
"""
VALUES = {"total": 7, "small": 65535, "big": 1 << 20, "scale": 0.5, "list": [1, 2, 3], "inner": {"a": 1, "b": 9}}


def test_a_mapping_fills_a_struct() -> None:
    out = np.zeros(6, np.float32)
    kernels(SOURCE, "tiling").by_value[1](VALUES, out)
    np.testing.assert_array_equal(out, [7, 65535, 1 << 20, 0.5, 3, 9])


@pytest.mark.parametrize(
    "values, message",
    [
        ({"nope": 1}, "no field nope"),
        ({"small": 65536}, "does not fit"),
        ({"total": -1}, "does not fit"),
        ({"list": [1, 2, 3, 4]}, "more were given"),
    ],
)
def test_wrong_fields_are_named(values: dict[str, object], message: str) -> None:
    with pytest.raises(BadArgument, match=message):
        kernels(SOURCE, "tiling").by_value[1](values, np.zeros(6, np.float32))


def test_host_macros_become_the_default_tiling(tmp_path: Path) -> None:
    import toprope

    (tmp_path / "op_host").mkdir()
    (tmp_path / "op_kernel").mkdir()
    (tmp_path / "op_host" / "scale_tiling.h").write_text(
        "BEGIN_TILING_DATA_DEF(ScaleTiling)\nTILING_DATA_FIELD_DEF(uint32_t, count);\nTILING_DATA_FIELD_DEF_ARR(float, 2, factors);\nEND_TILING_DATA_DEF;\n"
    )
    (tmp_path / "op_kernel" / "scale.cpp").write_text(
        '#include "kernel_operator.h"\nusing namespace AscendC;\n'
        'extern "C" __global__ __aicore__ void scale(GM_ADDR out, GM_ADDR workspace, GM_ADDR tiling) {\n'
        "    GET_TILING_DATA(data, tiling);\n    GlobalTensor<float> o;\n    o.SetGlobalBuffer((__gm__ float*)out);\n"
        "    o.SetValue(0, data.count * data.factors[1]);\n}\n"
    )
    out = np.zeros(1, np.float32)
    toprope.load(tmp_path / "op_kernel" / "scale.cpp").scale[1](out, None, {"count": 3, "factors": [1.0, 2.5]})
    assert out[0] == 7.5


def test_several_members_in_one_declaration_and_structs_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "inner.h").write_text("struct Inner { int32_t a = 1, b[2] = {3, 4}; };\n")
    kernel = tmp_path / "k.cpp"
    kernel.write_text('#include "outer.h"\n#include "inner.h"\n')
    (tmp_path / "outer.h").write_text("struct Outer { uint8_t small = 0, other = 0; Inner inner; uint64_t last; };\n")
    outer = tiling.structs(kernel)["Outer"]
    assert [(f.name, f.offset, f.count) for f in outer.fields] == [
        ("small", 0, 1),
        ("other", 1, 1),
        ("inner", 4, 1),
        ("last", 16, 1),
    ]


def test_the_vendors_structs_are_known(tmp_path: Path) -> None:
    kernel = tmp_path / "k.cpp"
    kernel.write_text(
        "BEGIN_TILING_DATA_DEF(Mine)\nTILING_DATA_FIELD_DEF(uint32_t, n);\n"
        "TILING_DATA_FIELD_DEF_STRUCT(TCubeTiling, cube);\nEND_TILING_DATA_DEF;\n"
    )
    mine = tiling.structs(kernel)["Mine"]
    assert mine.fields[1].offset == 4 and mine.bytes == 208  # 50 words, padded to 8 bytes
    assert "kernel_tiling/kernel_tiling.h" in tiling.generated_header(kernel)


def test_a_command_to_start_from_names_the_fields(tmp_path: Path) -> None:
    kernel = tmp_path / "k.cpp"
    kernel.write_text(
        "struct Part { uint32_t m; float s[3]; };\nstruct Plan { uint32_t n; Part part; };\n"
        "void k() { REGISTER_TILING_DEFAULT(Plan); }\n"
    )
    text = tiling.example(kernel)
    assert text == "{ n = 1, part = { m = 1, s = [1, 1, 1] } }"
    value = tomllib.loads(f"tiling = {text}")["tiling"]
    assert tiling.struct_bytes(kernel, "tiling", value).nbytes == 20
    kernel.write_text("struct A { int a; };\nstruct B { int b; };\nvoid k() {}\n")
    assert tiling.example(kernel) == "{ field = 1 }"

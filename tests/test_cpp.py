"""The reader of C++: heads, bodies, structs, calls and constants as sources write them, in whole and in broken text."""

from __future__ import annotations

import pytest

from toprope.cpp import Member, Parameter, number, read, strip_comments

KERNELS = """
extern "C" __global__ __aicore__ void plain(GM_ADDR x, GM_ADDR y) { Run(x, y); }
template <typename T, int N = 3>
__global__ __aicore__ void typed(__gm__ T* __restrict__ x, const uint32_t sizes[4]) {}
__global__ __mix__(1, 2) void mixed(void) {}
KERNEL_LINKAGE __global__ __vector__ void
spread(
#ifdef MORE
    GM_ADDR more,
#endif
    GM_ADDR y) {}
__global__ __simt_vf__ __launch_bounds__(512) inline void threads(float* p) {}
__global__ __aicore__ void declared(GM_ADDR x);
[[maybe_unused]] int helper(int a) { return a; }
#define MAKE(NAME) __global__ __aicore__ void NAME(GM_ADDR x) {}
"""


def test_kernels_with_every_mark() -> None:
    found = {f.name: f for f in read(KERNELS).kernels}
    assert list(found) == ["plain", "typed", "mixed", "spread", "threads", "declared"]
    assert found["plain"].parameters == (Parameter("GM_ADDR", "x"), Parameter("GM_ADDR", "y"))
    assert found["plain"].marks == 'extern "C" __global__ __aicore__' and found["plain"].body == " Run(x, y); "
    assert found["typed"].template == "typename T, int N = 3"
    assert found["typed"].parameters == (Parameter("T*", "x"), Parameter("const uint32_t*", "sizes"))
    assert found["mixed"].marks == "__global__ __mix__(1, 2)" and found["mixed"].parameters == ()
    assert [p.name for p in found["spread"].parameters] == ["more", "y"] and found["spread"].line == 7
    assert "__launch_bounds__(512)" in found["threads"].marks
    assert found["declared"].body is None
    assert "helper" in {f.name for f in read(KERNELS).functions}


def test_branches_with_unequal_braces_hide_no_kernel() -> None:
    text = """
#define GO(A) do { A; \\
    } while (0)
__global__ __aicore__ void first(GM_ADDR x) {
#if A
    if (x) {
#else
    while (x) {
#endif
        GO(x);
    }
}
template <int K>
__global__ __aicore__ void second(GM_ADDR y) {
    if (TILING_KEY_IS(1)) { Run(); }
}
class Op : public OpDef {
    int a[2] = {
#ifdef B
        1
#else
        2
#endif
    };
};
"""
    found = {f.name: f for f in read(text).kernels}
    assert list(found) == ["first", "second"] and found["second"].template == "int K"
    assert found["second"].body is not None and "TILING_KEY_IS" in found["second"].body
    assert [(r.name, r.bases) for r in read(text).records] == [("Op", ("OpDef",))]


def test_comments_and_literals() -> None:
    text = 'a = \'"\'; // b "\nc = "//no" /* d\n */ + R"x(/* in )x" + 1\'000; // e\n'
    bare = strip_comments(text)
    assert len(bare) == len(text) and bare.count("\n") == text.count("\n")
    assert (
        "b" not in bare
        and '"//no"' in bare
        and "/* in " in bare
        and "d" not in bare.replace("R", "")
        and "e" not in bare
    )


@pytest.mark.parametrize(
    ("body", "plain"),
    [
        ("uint32_t a, b[3][N]; float z = 1.0f; public: Inner c;", True),
        ("uint32_t a; void f();", False),
        ("uint32_t a : 3;", False),
        ("uint32_t* a;", False),
        ("static int a;", False),
        ("", True),
    ],
)
def test_records(body: str, plain: bool) -> None:
    (found,) = read(f"struct alignas(8) T {{ {body} }};").records
    assert (found.name, found.plain) == ("T", plain)


def test_members() -> None:
    (found,) = read("struct T { uint32_t a, b[3][N + 1]; std::array<int, 2> c{}; };").records
    assert found.members == (
        Member("uint32_t", "a", ()),
        Member("uint32_t", "b", ("3", "N + 1")),
        Member("std::array<int, 2>", "c", ()),
    )


def test_calls_are_not_definitions() -> None:
    text = "#define KEY(A) (A)\nif (KEY(1) || KEY(f(2, 3), 4)) {}\n"
    assert [(c.arguments, c.line) for c in read(text).calls("KEY")] == [(("1",), 2), (("f(2, 3)", "4"), 2)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("16", 16),
        ("0x10UL", 16),
        ("010", 8),
        ("0", 0),
        ("A", 4),
        ("ns::A * (B + 1)", 24),
        ("static_cast<int>(C)", 7),
        ("C / 2", 3),
        ("true", 1),
        ("D", 20),
        ("E", 10000000),
        ("LOOP", None),
        ("sizeof(int)", None),
        ("-7 / 2", None),
        ("1 / 0", None),
        ("", None),
        ("9 ** 9", None),
    ],
)
def test_numbers(text: str, value: int | None) -> None:
    source = read(
        "#define A 4\nconstexpr static int B = A + 1;\nenum { Z, C = 7, Y };\n#define D (B * \\\n A)\n#define E 10000000\n#define LOOP LOOP + 1\n"
    )
    assert number(text, source.constants) == value

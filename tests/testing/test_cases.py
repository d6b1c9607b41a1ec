"""Cases: contents, generation by class, case files, and hypothesis strategies that shrink."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from toprope.testing import Case, Signature, Tensor, compare, generate
from toprope.testing.casefile import from_dict, read, to_dict, write
from toprope.testing.cases import Absent, Argument, ArgumentList
from toprope.testing.data import DISTRIBUTIONS, Fill, make, special_values, tie_values
from toprope.testing.elements import dtype_of
from toprope.testing.errors import CaseError, FormatError
from toprope.testing.generate import BOUNDARY_BYTES
from toprope.testing.golden import Golden, golden_from, wrapped
from toprope.testing.signature import Attribute
from toprope.testing.strategies import cases

ADD = Signature(
    "add",
    (Tensor("x", ("float32", "float16", "bfloat16", "int32")), Tensor("y", "same:x", "broadcast:x")),
    (Attribute("alpha", (1, 2)),),
)
EVERY_DTYPE = ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "uint8", "int64", "bool"]
EVERY_DTYPE += ["uint64", "int4", "complex64", "float64"]


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", EVERY_DTYPE)
def test_distributions_keep_the_range_and_the_dtype(kind, dtype):
    values = make(Fill(kind, -1.5, 3.25), dtype, (50, 40), rng())
    assert values.shape == (50, 40) and values.dtype == dtype_of(dtype)
    wide = values.astype(np.complex128)
    assert wide.real.min() >= -1.6 and wide.real.max() <= 3.3
    if dtype.startswith("float"):
        assert len(np.unique(wide.real)) > 5


def test_distributions_differ_in_shape():
    spread = {kind: make(Fill(kind, -1, 1), "float64", (20_000,), rng()).std() for kind in DISTRIBUTIONS}
    assert spread["uniform"] == pytest.approx(1 / np.sqrt(3), rel=0.02)
    assert spread["triangular"] == pytest.approx(1 / np.sqrt(6), rel=0.02)
    assert spread["beta"] > spread["uniform"] > spread["triangular"] > spread["softmax"]
    assert (make(Fill("relu", -1, 1), "float32", (1000,), rng()) == 0).mean() == pytest.approx(0.5, abs=0.1)
    drawn = make(Fill("normal", mean=3, std=0.5), "float32", (20_000,), rng())
    assert drawn.mean() == pytest.approx(3, abs=0.02) and drawn.std() == pytest.approx(0.5, rel=0.03)


def test_softmax_rows_sum_to_the_range():
    rows = make(Fill("softmax", 0, 1), "float64", (6, 9), rng())
    assert np.allclose(rows.sum(axis=1), 1)


def test_integer_ranges_are_closed_and_full_width():
    assert set(make(Fill("uniform", -2, 2), "int8", (1000,), rng()).tolist()) == {-2, -1, 0, 1, 2}
    assert make(Fill("uniform", 0, 300), "uint8", (5000,), rng()).max() == 255
    assert make(Fill("uniform", 0, 2**64 - 1), "uint64", (5000,), rng()).max() > 2**63


def test_special_values_meet_in_all_combinations():
    fill = Fill("specials")
    n = len(special_values("float16"))
    x = make(fill, "float16", (n * n,), rng(), position=0).view(np.uint16)
    y = make(fill, "float16", (n * n,), rng(), position=1).view(np.uint16)
    assert len(set(zip(x.tolist(), y.tolist(), strict=True))) == n * n


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_special_values_hold_the_extremes(dtype):
    info = ml_dtypes.finfo(dtype_of(dtype))
    values = special_values(dtype).astype(np.float64)
    for expected in (info.max, info.tiny, info.smallest_subnormal, 0.0, 2.5):
        assert float(expected) in values and -float(expected) in values
    assert np.isnan(values).any() and np.signbit(values[values == 0]).any()
    if dtype != "float8_e4m3fn":
        assert np.isinf(values).any()


def test_ties_are_ties():
    ties = tie_values("float32").astype(np.float64)
    narrow = ties[np.abs(ties) < 40]
    half = narrow.astype(np.float16).astype(np.float64)
    below, above = np.nextafter(np.float16(half), -np.float16("inf")), np.nextafter(np.float16(half), np.float16("inf"))
    exact = (narrow - half == np.float64(above) - narrow) | (narrow - np.float64(below) == half - narrow)
    assert exact.sum() >= 20
    assert 0.5 in ties and -2.5 in ties


def test_related_inputs():
    table = make(Fill(), "float32", (7, 3), rng())
    index = make(Fill("index", of="table", axis=0), "int32", (500,), rng(), earlier={"table": table})
    assert set(index.tolist()) == set(range(7))
    offsets = make(Fill("offsets", of="table"), "int64", (4,), rng(), earlier={"table": table})
    assert offsets[-1] == 7 and np.all(np.diff(offsets) >= 0)
    near = make(Fill("near", high=1e-3, of="table"), "float32", (7, 3), rng(), earlier={"table": table})
    assert np.all(np.abs(near - table) <= 1.01e-3 * np.abs(table)) and not np.array_equal(near, table)
    assert np.array_equal(make(Fill("opposite", of="t"), "float32", (7, 3), rng(), earlier={"t": table}), -table)
    assert sorted(make(Fill("permutation"), "int32", (9,), rng()).tolist()) == list(range(9))
    assert make(Fill("mask", high=0.25), "bool", (4000,), rng()).mean() == pytest.approx(0.25, abs=0.04)
    with pytest.raises(CaseError, match="not come before"):
        make(Fill("near", of="missing"), "float32", (2,), rng())
    with pytest.raises(CaseError, match="uniform"):
        Fill("gaussian")


def test_planted_values_and_lists_of_values():
    values = make(Fill("uniform", values=(np.nan, np.inf, 7)), "float32", (2, 3), rng()).reshape(-1)
    assert np.isnan(values[0]) and values[1] == np.inf and values[2] == 7
    assert make(Fill("values", values=(3, 1)), "int64", (5,), rng()).tolist() == [3, 1, 3, 1, 3]
    assert make(Fill("values", values=(2**63 - 1,)), "int64", (1,), rng())[0] == 2**63 - 1


def test_generation_covers_every_dtype_rank_and_class():
    made = generate(ADD, 400, seed=5)
    assert len(made) == 400 and len({case.name for case in made}) == 400
    seen = {(c.kind, c.tensors[0].dtype, len(c.tensors[0].shape)) for c in made}
    for kind in ("general", "boundary", "random", "special"):
        assert {(kind, d, r) for d in ADD.dtypes for r in range(1, 9)} <= seen
    assert {c.attrs["alpha"] for c in made} == {1, 2}


def test_generation_is_reproducible_and_each_case_stands_alone():
    first, again, longer = generate(ADD, 40, seed=9), generate(ADD, 40, seed=9), generate(ADD, 80, seed=9)
    assert first == again
    assert first[0] == longer[0] and generate(ADD, 40, seed=8) != first
    for one, two in zip(first[:5], again[:5], strict=True):
        for a, b in zip(one.arrays(), two.arrays(), strict=True):
            assert a.tobytes() == b.tobytes()


def test_boundary_cases_sit_on_both_sides_of_each_boundary():
    one = Signature("neg", (Tensor("x", ("float16",), ranks=(1, 2)),))
    made = generate(one, 100, kinds=["boundary"], max_elements=1 << 17)
    sizes = {c.elements for c in made} | {c.tensors[0].shape[-1] for c in made}
    for length in BOUNDARY_BYTES:
        assert {length // 2 - 1, length // 2, length // 2 + 1} <= sizes
    assert {0, 1, 1 << 17} <= sizes and max(sizes) == 1 << 17


def test_the_first_boundary_cases_already_differ_in_length():
    made = generate(ADD, 30, kinds=["boundary"])
    lengths = {int(np.prod(c.tensors[0].shape)) * dtype_of(c.tensors[0].dtype).itemsize for c in made}
    assert len(lengths) >= 12 and 0 in lengths


def test_symbols_tie_shapes_together():
    matmul = Signature("matmul", (Tensor("a", ("float16",), ("M", "K")), Tensor("b", "same:a", ("K", "N"))))
    made = generate(matmul, 60)
    for case in made:
        a, b = case.tensors
        assert a.shape[1] == b.shape[0]
    assert len({case.tensors[0].shape for case in made}) > 15
    sized = Signature("rope", (Tensor("x", ("float32",), ("T", "D")),), sizes={"D": (64, 128)})
    assert {c.tensors[0].shape[1] for c in generate(sized, 30)} == {64, 128}


def test_index_inputs_and_optional_inputs():
    gather = Signature(
        "gather",
        (
            Tensor("table", ("float32",), ("V", "D")),
            Tensor("index", ("int32", "int64"), ("N",), fill=Fill("index", of="table"), special=False),
            Tensor("bias", "same:table", ("D",), optional=True),
        ),
    )
    made = [c for c in generate(gather, 60) if c.tensors[0].shape[0] > 0]
    for case in made:
        table, index, _ = case.arrays()
        assert index.size == 0 or (index.min() >= 0 and index.max() < table.shape[0])
    assert {type(c.arguments[2]) for c in made} == {Absent, Argument}
    assert {c.tensors[1].dtype for c in made} == {"int32", "int64"}


def test_special_cases_reach_golden_and_pass_for_a_right_operator():
    for case in generate(ADD, 40, kinds=["special"]):
        x, y = case.arrays()
        with np.errstate(all="ignore"):
            result = (x + y).astype(x.dtype)
        golden = Golden(np.add)((x, y))[0]
        assert compare(result, wrapped(golden, case.tensors[0].dtype)).passed, case.name


def test_scalar_tensors():
    made = generate(Signature("abs", (Tensor("x", ("float32",), ranks=(0,)),)), 8)
    assert {c.tensors[0].shape for c in made} == {()} and made[0].arrays()[0].shape == ()


def test_golden_is_wide_and_integers_wrap():
    x = np.array([100, -100], np.int8)
    exact = Golden(np.add)((x, x))[0]
    assert exact.dtype == np.int64 and wrapped(exact, "int8").tolist() == [-56, 56]
    assert Golden(np.exp)((np.float16([1.0]),))[0].dtype == np.float64
    assert Golden(np.exp, precision="same")((np.float32([1.0]),))[0].dtype == np.float32
    assert golden_from("numpy.add")((x, x))[0].tolist() == [200, -200]
    with pytest.raises(FormatError, match="names nothing"):
        golden_from("numpy.no_such_function")


@pytest.mark.torch
def test_torch_golden_takes_every_dtype():
    pytest.importorskip("torch")
    gelu = golden_from("torch.nn.functional.gelu")
    x = make(Fill(), "bfloat16", (4, 5), rng())
    assert gelu((x,), {"approximate": "tanh"})[0].dtype == np.float64
    neg = Golden(lambda v: -v, precision="same", library="torch")
    for dtype in ("bfloat16", "float8_e5m2", "float16", "int32"):
        value = make(Fill("uniform", -2, 2), dtype, (3,), rng())
        if dtype != "float8_e5m2":
            assert np.array_equal(neg((value,))[0].astype(float), -value.astype(float))
        assert Golden(lambda v: v, precision="same", library="torch")((value,))[0].tobytes() == value.tobytes()


def test_case_files_round_trip(tmp_path):
    listed = Case("l", "concat", (ArgumentList("xs", (Argument("a", "int8", (2,)), Argument("b", "int8", (3,)))),))
    made = [*generate(ADD, 20), listed]
    assert [from_dict(to_dict(case)) for case in made] == made
    write(tmp_path / "cases.toml", made)
    assert [to_dict(c) for c in read(tmp_path / "cases.toml").cases] == [to_dict(c) for c in made]
    xs = listed.arrays()[0]
    assert [x.shape for x in xs] == [(2,), (3,)]


def test_case_file_with_signature(tmp_path):
    file = tmp_path / "add.toml"
    file.write_text(
        """
        [operator]
        name = "add"
        golden = "numpy.add"
        [[operator.inputs]]
        name = "x"
        dtypes = ["float16", "int32"]
        ranks = [1, 2]
        [[operator.inputs]]
        name = "y"
        dtypes = "same:x"
        shape = "same:x"
        fill = { kind = "near", of = "x", high = 1e-3 }
        [generate]
        count = 24
        seed = 3
        kinds = ["general", "random"]
        [[cases]]
        name = "by_hand"
        inputs = [{ name = "x", dtype = "float16", shape = [1, 100], fill = "ties" }]
        """
    )
    found = read(file)
    assert len(found.cases) == 25 and found.golden == "numpy.add" and found.cases[0].name == "by_hand"
    assert {len(c.tensors[0].shape) for c in found.cases} == {1, 2}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[operator", "not TOML"),
        ("[oops]\na = 1", "unknown tables"),
        ('[[cases]]\nname = "a"\noperator = "b"\nsize = 3', "size"),
        ('[[cases]]\nname = "a"\noperator = "b"\ninputs = [{ name = "x" }]', "dtype"),
        ('[operator]\nname = "a"\n[[operator.inputs]]\nname = "x"\n[generate]\nhow_many = 3', "how_many"),
        ('[operator]\nname = "a"\n[[operator.inputs]]\nname = "x"\ntype = "float"', "type"),
    ],
)
def test_case_file_mistakes_are_named(tmp_path, text, words):
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(FormatError, match=words):
        read(file)


@given(cases(ADD, max_elements=500))
@settings(max_examples=60, deadline=None)
def test_drawn_cases_make_broadcastable_arrays(case):
    x, y = case.arrays()
    assert np.broadcast_shapes(x.shape, y.shape) == x.shape and x.dtype == y.dtype


def test_failures_shrink_to_the_smallest_shape():
    """A kernel that forgets the tail of each 32-byte block fails first for a single element."""
    one = Signature("copy", (Tensor("x", ("float32",), ranks=(1, 2)),))

    def forgets_tail(case):
        flat = case.arrays()[0].reshape(-1)
        copied = np.zeros_like(flat)
        whole = flat.size // 8 * 8
        copied[:whole] = flat[:whole]
        return not compare(copied, flat, "binary").passed

    smallest = find(cases(one, contents=["uniform"]), forgets_tail, settings=settings(max_examples=500, database=None))
    assert smallest.tensors[0].shape == (1,)


def test_shapes_that_depend_on_each_other_shrink_together():
    product = Signature("mm", (Tensor("a", ("float16",), shape=("M", "K")), Tensor("b", "same:a", shape=("K", "N"))))

    def fails(case):  # in rows of A beyond the third, unless K is whole fractals
        rows, depth = case.tensors[0].shape
        return rows > 3 and depth % 16 != 0

    smallest = find(cases(product), fails, settings=settings(max_examples=500, database=None))
    assert [t.shape for t in smallest.tensors] == [(4, 1), (1, 1)] and smallest.seed == 0


def test_correlated_inputs_are_drawn_as_the_signature_says():
    near = Tensor("y", "same:x", shape="broadcast:x", fill=Fill("near", of="x", high=1e-3))
    pair = Signature("sub", (Tensor("x", ("float32",), ranks=(1, 2, 3)), near))
    found = find(
        cases(pair, contents=["uniform"]),
        lambda case: case.tensors[0].shape != case.tensors[1].shape,
        settings=settings(max_examples=500, database=None),
    )
    assert found.tensors[1].fill.kind == "near"
    assert len(found.tensors[0].shape) == 1 and max(found.tensors[0].shape) <= 2


def test_dtype_names_of_other_tools():
    for spelling, name in [
        ("DT_BF16", "bfloat16"),
        ("torch.half", "float16"),
        ("fp32", "float32"),
        ("float", "float32"),
    ]:
        assert dtype_of(spelling).name == name
    with pytest.raises(CaseError, match="no element type"):
        dtype_of("qint8x")


@given(st.integers(0, 2**31))
@settings(max_examples=20, deadline=None)
def test_any_seed_gives_valid_cases(seed):
    for case in generate(ADD, 8, seed=seed, max_elements=2000):
        assert all(np.prod(t.shape) <= 2000 for t in case.tensors)

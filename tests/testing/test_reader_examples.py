"""Inputs and command lines read out of C++ sources: example programs and unit tests of our own."""

from __future__ import annotations

import numpy as np
import pytest

from toprope.project.definition import Definition, Tensor
from toprope.testing.errors import CaseError
from toprope.testing.readers import examples, scripts, ttk
from toprope.testing.readers.aclnn_headers import AclnnParameter
from toprope.testing.readers.cpp_commands import commands
from toprope.testing.readers.testspec import load

BLEND = Definition(
    "Blend",
    (Tensor("base", ("FLOAT16",), ()), Tensor("over_lay", ("FLOAT16",), ()), Tensor("mask", ("BOOL",), (), "OPTIONAL")),
    (Tensor("out", ("FLOAT16",), ()),),
    attributes={"mode": "none", "steps": None},
)
ACLNN = """
int main() {
    std::vector<int64_t> baseShape = {2, 3};
    std::vector<float> baseHostData = {1, 2, 3, 4, 5, 6.5f};
    std::vector<float> overHostData(6, 0.25);
    // std::vector<float> overHostData = {9};
    std::vector<int64_t> axes{0, 1};
    float weight = 0.5f;
    aclScalar* alpha = aclCreateScalar(&weight, aclDataType::ACL_FLOAT);
    ret = CreateAclTensor(baseHostData, baseShape, &baseAddr, aclDataType::ACL_FLOAT16, &base);
    ret = CreateAclTensor(overHostData, baseShape, &overAddr, aclDataType::ACL_FLOAT, &over);
    ret = CreateAclTensor(outData, baseShape, &outAddr, aclDataType::ACL_BF16, &out);
    ret = aclnnBlendGetWorkspaceSize(base, over, alpha, axes, 7, out, &workspaceSize, &executor);
}
"""
GRAPH = """
constexpr int64_t kRows = 4;
int main() {
    auto baseDesc = MakeTensorDesc({kRows, 2}, ge::DT_FLOAT);
    node.set_attr_mode("soft").set_attr_steps({1, kRows});
    vector<Tensor> inputs = {MakeTensor(baseDesc, baseData), MakeTensor(baseDesc, DT_INT32, vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8})};
}
"""


def program(tmp_path, text):
    (tmp_path / "examples").mkdir(exist_ok=True)
    (tmp_path / "examples" / "test_it.cpp").write_text(text)
    return tmp_path


def test_an_aclnn_example_becomes_a_case(tmp_path):
    kinds = [("base", "tensor"), ("other", "tensor"), ("alpha", "scalar"), ("axes", "value"), ("count", "value"), ("out", "output")]  # fmt: skip
    parameters = [AclnnParameter(name, kind) for name, kind in kinds]
    (case,) = examples.aclnn_cases(program(tmp_path, ACLNN), "aclnnBlend", parameters)
    base, other = case.arrays()
    assert base.dtype == np.float16 and base.tolist() == [[1, 2, 3], [4, 5, 6.5]]
    assert other.dtype == np.float32 and np.all(other == 0.25) and other.shape == (2, 3)
    assert case.attrs == {"alpha": 0.5, "axes": [0, 1], "count": 7}
    assert (case.outputs[0].dtype, case.outputs[0].shape) == ("bfloat16", (2, 3))
    assert examples.aclnn_cases(tmp_path, "aclnnOther", parameters) == []


def test_a_graph_example_gives_shapes_numbers_and_attributes(tmp_path):
    (case,) = examples.kernel_cases(program(tmp_path, GRAPH), "blend", BLEND)
    base, over = case.arrays()
    assert base.shape == (4, 2) and base.dtype == np.float32
    assert over.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]] and over.dtype == np.int32
    assert case.attrs == {"mode": "soft", "steps": [1, 4]}


def test_an_example_without_a_required_input_is_left_out(tmp_path):
    text = "int main() { std::vector<int64_t> baseShape = {2, 3}; }"
    assert examples.kernel_cases(program(tmp_path, text), "blend", BLEND) == []


def test_named_shapes_are_enough(tmp_path):
    text = "std::vector<int64_t> overLayShape = {5}; std::vector<int64_t> baseShape = {2, 3};"
    (case,) = examples.kernel_cases(program(tmp_path, text), "blend", BLEND)
    assert [a.shape for a in case.arrays()] == [(2, 3), (5,)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('system("cd d && python3 gen.py 4 float16");', [" 4 float16"]),
        ('std::string kind = "int8"; system(("python3 gen.py \'(2, 3)\' " + kind).c_str());', [" '(2, 3)' int8"]),
        (
            'void Run(const std::string& kind, uint32_t side) { auto c = "python3 gen.py " + std::to_string(side) +\n'
            '" " + kind; }\nTEST(A, B) { Run("float32", 16U); Run("float16", 8); }',
            [" 16 float32"],
        ),
        ('system(("gen.py " + unknown).c_str());', []),
        ('// system("gen.py 1");\n', []),
    ],
)
def test_commands_are_put_together_from_what_the_source_says(text, expected):
    assert list(commands("gen.py", text)) == expected


def test_arguments_of_a_unit_test_come_from_its_source(tmp_path):
    folder = tmp_path / "op_data"
    folder.mkdir()
    (folder / "gen_data.py").write_text('print("Usage: gen_data.py <dtype>")')
    (folder / "compare_data.py").write_text("")
    call = 'const auto command = "cd op_data && python3 gen_data.py " + std::to_string(rows) + " int8";'
    (tmp_path / "test_op.cpp").write_text(f"void Run(int rows) {{ {call} }} TEST(a, b) {{ Run(12); }}")
    (pair,) = scripts.find(tmp_path)
    assert pair.generator_arguments == ("12", "int8")


def test_assets_find_a_stand_in_for_the_kits_conversions(tmp_path):
    asset = tmp_path / "golden.py"
    asset.write_text("from ttk.utilities.dtypes import numpy_bfloat16, torch_to_numpy_tensor\n")
    module = load(asset)
    assert np.dtype(module.numpy_bfloat16()).name == "bfloat16"
    assert module.torch_to_numpy_tensor(np.float32([1, 2])).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def make(x_shape, d_type='float32'): ...\nmake(sys.argv[1], sys.argv[2])", ("(16, 64)", "float32")),
        ("shape = eval(sys.argv[1])\nalpha = float(sys.argv[2])\n", ("(16, 64)", "0.5")),
        ("parser.add_argument('dtype')\nparser.add_argument('--seed')\n", ("float32",)),
        ("if len(sys.argv) < 2: sys.exit('Usage: gen_data.py <rows> <dtype>')", ("8", "float32")),
        ("def make(secret): ...\nmake(sys.argv[1])", ()),
    ],
)
def test_arguments_that_nothing_shows_are_guessed_from_their_names(tmp_path, text, expected):
    (tmp_path / "gen_data.py").write_text(text)
    (tmp_path / "compare_data.py").write_text("")
    (pair,) = scripts.find(tmp_path)
    assert pair.generator_arguments == expected


def test_a_verifier_that_counts_no_failure_says_yes(tmp_path):
    folder = tmp_path / "scripts" / "op_data"
    folder.mkdir(parents=True)
    (folder / "gen_data.py").write_text("open('golden.bin', 'wb').write(b'1234')")
    for count, good in ((0, True), (10, False)):
        (folder / "compare_data.py").write_text(f"print('1 PASSED, {count} FAILED')")
        (pair,) = scripts.find(tmp_path / "scripts")
        if good:
            assert scripts.self_check(pair, tmp_path / "good").goldens == ("golden.bin",)
        else:
            with pytest.raises(CaseError, match="the verifier says"):
                scripts.self_check(pair, tmp_path / "bad")


def test_a_table_of_bits_is_read_as_bytes(tmp_path):
    table = tmp_path / "cases.csv"
    table.write_text(
        "testcase_name,op_name,input_shapes,input_dtypes\nbits,relu,\"((2, 16), (2, 16))\",\"('float16', 'uint1')\"\n"
    )
    cases, complaints = ttk.read(table)
    values, bits = cases[0].arrays()
    assert not complaints and values.shape == (2, 16)
    assert bits.shape == (2, 2) and bits.dtype == np.uint8


def test_a_guess_that_fails_is_made_again_with_other_types_and_shapes(tmp_path):
    folder = tmp_path / "op_data"
    folder.mkdir()
    (folder / "gen_data.py").write_text(
        """import sys
import numpy as np
if len(sys.argv) != 3:
    sys.exit("Usage: gen_data.py 'shape' 'dtype'")
kind = {"float": np.float32}[sys.argv[2]]
shape = eval(sys.argv[1])
assert len(shape) == 4 and np.alltrue(np.array(shape) > 0)
np.ones(shape, kind).tofile("float_golden.bin")
"""
    )
    (folder / "compare_data.py").write_text(
        "import sys, numpy as np\nprint('PASSED', sys.argv[1], np.fromfile('the_result.bin', np.float32).size)\n"
        "assert sys.argv[1] == 'float'\n"
    )
    (folder / "README.md").write_text("python3 compare_data.py float16\n")
    (pair,) = scripts.find(tmp_path)
    assert pair.guessed and pair.generator_arguments == ("(16, 64)", "float32")
    assert pair.verifier_arguments == ("float32",)
    done = scripts.self_check(pair, tmp_path / "work")
    assert done.pair.generator_arguments == ("(2, 3, 8, 8)", "float")
    assert (done.workspace / "the_result.bin").stat().st_size == 2 * 3 * 8 * 8 * 4

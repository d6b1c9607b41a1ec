"""Readers of other tools' files, on small fixtures of our own, and their exporters."""

from __future__ import annotations

import csv
import json
import textwrap

import numpy as np
import pytest

from toprope.project.definition import read_definition
from toprope.testing import Argument, ArgumentList, Case, Fill
from toprope.testing.cases import Absent
from toprope.testing.errors import CaseError, FormatError
from toprope.testing.execution import PASSED, execute
from toprope.testing.readers import assets, cann_bench, find_suites, msopst, scripts, ttk
from toprope.testing.readers.aclnn_headers import read_aclnn
from toprope.testing.readers.literals import literal
from toprope.testing.readers.testspec import index
from toprope.testing.runners import ReferenceRunner
from toprope.testing.survey import summary, survey


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def run_all(suite):
    return [execute(suite, case, ReferenceRunner(suite)) for case in suite.cases]


# -- literals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("((3, 4), None)", ((3, 4), None)),
        ("(-inf, float('inf'))", (-np.inf, np.inf)),
        ("2**16 - 1", 65535),
        ("{'axis': [0, -1]}", {"axis": [0, -1]}),
        ("float16", "float16"),
        ("np.inf", np.inf),
    ],
)
def test_literals(text, value):
    assert literal(text) == value


@pytest.mark.parametrize("text", ["__import__('os')", "(lambda: 1)()", "[x for x in y]", "2**100000", "(1,"])
def test_code_is_no_literal(text):
    with pytest.raises(FormatError, match="not a literal"):
        literal(text, "file.csv:3")


# -- script pairs -----------------------------------------------------------------------------------------------------


def make_pair(folder, *, good=True, argument=False):
    write(
        folder / "scripts" / "gen_data.py",
        f"""
        import sys
        import numpy as np
        size = int(sys.argv[1].split("=")[1]) if {argument} else 8
        x = np.arange(size, dtype=np.float32)
        x.tofile("./input/input_x.bin")
        (x * 2).tofile("./output/golden.bin")
        """,
    )
    write(
        folder / "scripts" / "verify_result.py",
        f"""
        import sys
        import numpy as np
        a, b = (np.fromfile(f, np.float32) for f in sys.argv[1:3])
        if not np.allclose(a, b) or not {good}:
            print("[ERROR] result error")
            sys.exit(1)
        print("test pass!")
        """,
    )
    return folder


def test_script_pair_runs_as_it_is(tmp_path):
    make_pair(tmp_path / "double")
    (pair,) = scripts.find(tmp_path)
    assert pair.name == "double"
    generated = scripts.self_check(pair, tmp_path / "work")
    assert generated.inputs == ("input/input_x.bin",) and generated.goldens == ("output/golden.bin",)
    assert generated.outputs == ("output/output.bin",)
    wrong = np.fromfile(tmp_path / "work/output/output.bin", np.float32)
    (wrong + 1).tofile(tmp_path / "work/output/output.bin")
    with pytest.raises(CaseError, match="result error"):
        scripts.verify(generated)


def test_script_arguments_come_from_the_readme(tmp_path):
    make_pair(tmp_path / "scaled", argument=True)
    write(
        tmp_path / "scaled" / "README.md",
        """
        SIZE=16
        python3 ../scripts/gen_data.py -size=$SIZE   # makes the data
        python3 ../scripts/verify_result.py output/output_z.bin output/golden.bin
        `gen_data.py` is a script that makes data.
        """,
    )
    (pair,) = scripts.find(tmp_path)
    assert pair.generator_arguments == ("-size=16",)
    generated = scripts.self_check(pair, tmp_path / "work")
    assert generated.outputs == ("output/output_z.bin",)
    assert (tmp_path / "work/input/input_x.bin").stat().st_size == 64


def test_unit_test_pair_keeps_its_files_together(tmp_path):
    data = tmp_path / "tests" / "neg_data"
    write(
        data / "gen_data.py",
        """
        import sys
        import numpy as np
        shape = eval(sys.argv[1])
        x = np.ones(shape, sys.argv[2])
        x.tofile(f"{sys.argv[2]}_input_neg.bin")
        (-x).tofile(f"{sys.argv[2]}_golden_neg.bin")
        """,
    )
    write(
        data / "compare_data.py",
        """
        import sys
        import numpy as np
        a = np.fromfile(f"{sys.argv[1]}_output_neg.bin", sys.argv[1])
        b = np.fromfile(f"{sys.argv[1]}_golden_neg.bin", sys.argv[1])
        print("PASSED!" if np.array_equal(a, b) else "FAILED!")
        """,
    )
    write(
        tmp_path / "tests" / "test_neg.cpp",
        """
        system("cd ./neg_data/ && python3 gen_data.py '(2, 3)' 'float16'");
        system("cd ./neg_data/ && python3 compare_data.py 'float16'");
        """,
    )
    (pair,) = scripts.find(tmp_path)
    assert pair.generator_arguments == ("(2, 3)", "float16") and pair.verifier_arguments == ("float16",)
    generated = scripts.self_check(pair, tmp_path / "work")
    assert generated.outputs == ("float16_output_neg.bin",)
    np.zeros(6, np.float16).tofile(tmp_path / "work/float16_output_neg.bin")
    with pytest.raises(CaseError, match="FAILED"):
        scripts.verify(generated)
    assert not (data / "float16_golden_neg.bin").exists()


def test_broken_generator_is_quoted(tmp_path):
    make_pair(tmp_path / "broken")
    write(tmp_path / "broken/scripts/gen_data.py", "raise ValueError('no luck')")
    (pair,) = scripts.find(tmp_path)
    with pytest.raises(CaseError, match="no luck"):
        scripts.self_check(pair, tmp_path / "work")


def test_exported_pair_has_the_usual_contract(tmp_path):
    case = Case("add_1", "add", (Argument("x", "bfloat16", (5, 3)), Argument("y", "bfloat16", (5, 3))))
    x, y = case.arrays()
    pair = scripts.write(tmp_path / "add", case, [x + y], rtol=1e-2, atol=1e-3, bad_share=0)
    generated = scripts.self_check(pair, tmp_path / "work")
    assert set(generated.inputs) == {"input/input_x.bin", "input/input_y.bin"}
    assert (tmp_path / "work/input/input_x.bin").read_bytes() == x.tobytes()
    (x - y).tofile(tmp_path / "work" / generated.outputs[0])
    with pytest.raises(CaseError, match="result error"):
        scripts.verify(generated)


# -- ops-test-kit -----------------------------------------------------------------------------------------------------

TABLE = """\
testcase_name,op_name,input_shapes,input_dtypes,output_shapes,output_dtypes,attributes,input_data_ranges,is_enabled
plain,scale,"((4, 8), (1,))","('float16', 'float32')","((4, 8),)","('float16',)",{'bias': 1.5},"((-1, 1), (2, 2))",True
lists,join,"(((3,), (2,)), None, (5,))","(('int8', 'int8'), None, 'int8')","((5,),)","('int8',)",{},,True
off,scale,"((4, 8), (1,))","('float16', 'float32')","((4, 8),)","('float16',)",{},,False
planted,scale,"((9,), (1,))","('float32',)","((9,),)","('float32',)","{'bias': 0, 'factor': [3]}","((0, 1, (nan, inf)), (None, None))",
"""

ASSET = """
import numpy as np

__golden__ = {"kernel": {"scale": "scale_golden"}}
__input__ = {"kernel": {"scale": "scale_input"}}

def scale_golden(x, factor, *, bias=0.0, **kwargs):
    assert kwargs["output_dtypes"] and kwargs["input_ori_shapes"]
    return (x.astype(np.float32) * factor + bias).astype(x.dtype)

def scale_input(x, factor, **kwargs):
    return x, np.abs(factor)
"""

DEFINITION = """
class Scale : public OpDef {
public:
explicit Scale(const char* name) : OpDef(name) {
this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT16, ge::DT_FLOAT}).Format({ge::FORMAT_ND, ge::FORMAT_ND});
this->Input("factor").ParamType(OPTIONAL).DataType({ge::DT_FLOAT, ge::DT_FLOAT}); // this->Input("gone")
this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT16, ge::DT_FLOAT});
this->Attr("bias").AttrType(OPTIONAL).Float(0.5);
this->Attr("axes").AttrType(OPTIONAL).ListInt({0, -1});
this->Attr("keep").AttrType(OPTIONAL).Bool(false);
}
};
"""


def test_table_rows_become_cases(tmp_path):
    cases, problems = ttk.read(write(tmp_path / "t.csv", TABLE))
    assert not problems and [c.name for c in cases] == ["plain", "lists", "off", "planted"]
    plain, lists, _, planted = cases
    assert plain.attrs == {"bias": 1.5} and plain.tensors[0].fill.low == -1 and plain.outputs[0].shape == (4, 8)
    assert isinstance(lists.arguments[0], ArgumentList) and isinstance(lists.arguments[1], Absent)
    assert [a.shape for a in lists.arguments[0].items] == [(3,), (2,)]
    x = planted.arrays()[0]
    assert np.isnan(x[0]) and np.isinf(x[1]) and planted.tensors[1].dtype == "float32"
    assert [c.name for c in ttk.enabled(cases)] == ["plain", "lists", "planted"]


def test_bad_rows_are_named_and_do_not_stop_the_others(tmp_path):
    text = 'testcase_name,op_name,input_shapes,input_dtypes\nbad,abs,"((4,",float16\ngood,abs,"((4,),)","(\'int8\',)"\n'
    cases, problems = ttk.read(write(tmp_path / "t.csv", text))
    assert (
        [c.name for c in cases] == ["good"]
        and len(problems) == 1
        and "bad" in problems[0]
        and "input_shapes" in problems[0]
    )


def test_table_round_trip_and_xlsx(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    cases, _ = ttk.read(write(tmp_path / "t.csv", TABLE))
    ttk.write(tmp_path / "again.csv", cases)
    again, problems = ttk.read(tmp_path / "again.csv")
    assert not problems
    for one, two in zip(cases, again, strict=True):
        assert (one.arguments, one.attrs, one.outputs) == (two.arguments, two.attrs, two.outputs)
    book = openpyxl.Workbook()
    with (tmp_path / "t.csv").open() as file:
        for row in csv.reader(file):
            book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    assert ttk.is_table(tmp_path / "t.xlsx")
    assert [c.arguments for c in ttk.read(tmp_path / "t.xlsx")[0]] == [c.arguments for c in cases]


def test_assets_and_tables_meet_in_the_operator_folder(tmp_path):
    folder = tmp_path / "math" / "scale"
    write(folder / "op_host" / "scale_def.cpp", DEFINITION)
    write(folder / "tests" / "assets" / "golden.py", ASSET)
    write(folder / "tests" / "st" / "scale.csv", TABLE)
    (suite,) = [s for s in find_suites(tmp_path) if s.name == "scale"]
    assert [a.name for a in suite.cases[0].arguments] == ["x", "factor"]
    assert [r.status for r in run_all(suite)] == [PASSED, PASSED]
    planted = next(c for c in suite.cases if c.name == "planted")
    assert planted.attrs == {"bias": 0} and suite.inputs(planted)[1].tolist() == [3]
    x, factor = suite.inputs(suite.cases[0])
    golden = suite.reference(suite.cases[0], (x, factor))[0]
    assert np.array_equal(golden, (x.astype(np.float32) * 2 + 1.5).astype(np.float16))


def test_asset_without_table_gets_cases_from_the_definition(tmp_path):
    folder = tmp_path / "scale"
    write(folder / "op_host" / "scale_def.cpp", DEFINITION)
    write(folder / "tests" / "assets" / "golden.py", ASSET)
    (suite,) = assets.read(folder)
    assert {c.tensors[0].dtype for c in suite.cases} == {"float16", "float"}
    assert suite.cases[0].attrs["bias"] == 0.5
    assert all(r.status == PASSED for r in run_all(suite))


def test_definition_and_header(tmp_path):
    definition = read_definition(write(tmp_path / "scale_def.cpp", DEFINITION))
    assert [(t.name, t.optional) for t in definition.inputs] == [("x", False), ("factor", True)]
    assert definition.attributes == {"bias": 0.5, "axes": [0, -1], "keep": False}
    write(
        tmp_path / "aclnn_scale.h",
        """
        aclnnStatus aclnnScaleGetWorkspaceSize(const aclTensor* self, const aclTensorList *others, const aclScalar* alpha,
            int64_t dim, aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor);
        """,
    )
    parameters = read_aclnn(tmp_path)["aclnnScale"]
    kinds = [("self", "tensor"), ("others", "tensors"), ("alpha", "scalar"), ("dim", "value"), ("out", "output")]
    assert [(p.name, p.kind) for p in parameters] == kinds


def test_indexing_executes_nothing(tmp_path):
    write(tmp_path / "boom.py", '__spec__ = {"abs": "AbsTestSpec"}\nraise SystemExit("executed")')
    asset = index([tmp_path])["abs"]
    assert asset.mode == "kernel" and asset.is_spec


SPEC = """
import numpy as np

__spec__ = {"abs": "AbsTestSpec", "neg": "NegTestSpec", "shift": "ShiftTestSpec"}

class AbsTestSpec:
    golden = "numpy.abs"
    tolerance = {"float16": {"standard": "binary_equal"}, "float32": {"standard": "mix_tolerance", "rtol": 0.5}}

class NegTestSpec:
    def golden(x, **kwargs):
        return [-x]
    def customize_inputs(x, **kwargs):
        return [x * 0 + 3]

class Shift:
    def __init__(self, amount):
        self.amount = amount
    def __call__(self, x):
        return [x + self.amount]

class ShiftTestSpec:
    golden = Shift
"""


def test_spec_forms(tmp_path):
    write(tmp_path / "op_host" / "x.txt", "")
    write(tmp_path / "tests" / "assets" / "golden.py", SPEC)
    rows = [
        f'{n},{n},"((6,),)","(\'{d}\',)","((6,),)","(\'{d}\',)",{{\'amount\': 2}}'
        for n, d in [("abs", "float16"), ("neg", "int32"), ("shift", "float32")]
    ]
    header = "testcase_name,op_name,input_shapes,input_dtypes,output_shapes,output_dtypes,attributes"
    write(
        tmp_path / "tests" / "st" / "t.csv",
        "\n".join([header, *(r.replace("{'amount': 2}", "\"{'amount': 2}\"") for r in rows)]),
    )
    suites = {s.name: s for s in find_suites(tmp_path)}
    assert set(suites) == {"abs", "neg", "shift"}
    assert suites["abs"].cases[0].standard == "binary"
    assert all(r.status == PASSED for s in suites.values() for r in run_all(s)), [run_all(s) for s in suites.values()]
    neg, shift = suites["neg"], suites["shift"]
    assert neg.reference(neg.cases[0], neg.inputs(neg.cases[0]))[0].tolist() == [-3] * 6
    inputs = shift.inputs(shift.cases[0])
    assert np.array_equal(shift.reference(shift.cases[0], inputs)[0], inputs[0] + 2)


@pytest.mark.torch
def test_aclnn_assets_take_torch_tensors_in_header_order(tmp_path):
    pytest.importorskip("torch")
    write(
        tmp_path / "op_api" / "aclnn_axpy.h",
        "aclnnStatus aclnnAxpyGetWorkspaceSize(const aclTensor* self, const aclScalar* alpha, const aclTensor* other, "
        "int64_t dim, aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor);",
    )
    write(
        tmp_path / "tests" / "assets" / "golden.py",
        """
        __golden__ = {"aclnn": {"aclnnAxpy": "axpy"}}
        def axpy(a, scale, b, dim, out=None, **kwargs):
            assert dim == 7
            return a + scale * b
        """,
    )
    write(
        tmp_path / "tests" / "st" / "t.csv",
        "testcase_name,api_name,tensor_view_shapes,tensor_dtypes,output_tensor_indexes,scalar_dtypes,attributes,scalar_data_ranges\n"
        'one,aclnnAxpy,"((2,3),(2,3),(2,3))","(\'bfloat16\',)","(2,)","(\'float32\',)",{\'dim\': 7},"((2,2),)"\n',
    )
    (suite,) = find_suites(tmp_path)
    (result,) = run_all(suite)
    assert result.status == PASSED, result.message
    a, b, scale = suite.inputs(suite.cases[0])
    wide = a.astype(np.float32) + 2 * b.astype(np.float32)
    assert np.allclose(suite.reference(suite.cases[0], (a, b, scale))[0].astype(np.float32), wide, rtol=0.01)


@pytest.mark.torch
def test_aclnn_and_framework_assets_without_rows_use_the_kernels(tmp_path):
    pytest.importorskip("torch")
    folder = tmp_path / "scale"
    write(folder / "op_host" / "scale_def.cpp", DEFINITION)
    write(folder / "tests" / "st" / "scale.csv", TABLE)
    write(
        folder / "tests" / "assets" / "golden.py",
        """
        __spec__ = {"scale": "Kernel", "aclnnScale": "Function", "torch.scale": "Framework"}
        class Kernel:
            def golden(x, factor=None, bias=0.5, **kwargs):
                return x
        class Function:
            def golden(x, factor, bias, y, **kwargs):
                return x.float() * factor.float() + float(bias)
        class Framework:
            def golden(x, factor, **kwargs):
                return x.float() * factor.float()
        """,
    )
    suites = {suite.name: suite for suite in assets.read(folder)}
    for name in ("aclnnScale", "torch.scale"):
        assert suites[name].cases[0].elements == min(c.elements for c in suites["scale"].cases)
        assert run_all(suites[name])[0].status == PASSED
    planted = next(c for c in suites["aclnnScale"].cases if c.name == "aclnnScale_planted")
    x, factor = suites["aclnnScale"].inputs(planted)
    assert factor.tolist() == [3]
    result = suites["aclnnScale"].reference(planted, (x, factor))[0]
    assert np.array_equal(result, x.astype(np.float32) * 3, equal_nan=True)


@pytest.mark.torch
def test_a_golden_with_more_parameters_than_its_header_is_called_by_its_own_names(tmp_path):
    pytest.importorskip("torch")
    write(
        tmp_path / "op_api" / "aclnn_ramp.h",
        "aclnnStatus aclnnRampGetWorkspaceSize(const aclScalar* start, const aclScalar* end, aclTensor* out, "
        "uint64_t* workspaceSize, aclOpExecutor** executor);",
    )
    write(
        tmp_path / "examples" / "test_aclnn_ramp.cpp",
        """
        int main() {
            float begin = 1.0f; float stop = 5.0f;
            std::vector<int64_t> outShape = {4};
            std::vector<float> outHostData(4, 0);
            CreateAclTensor(outHostData, outShape, &outAddress, aclDataType::ACL_FLOAT, &out);
            start = aclCreateScalar(&begin, aclDataType::ACL_FLOAT);
            end = aclCreateScalar(&stop, aclDataType::ACL_FLOAT);
            aclnnRampGetWorkspaceSize(start, end, out, &workspaceSize, &executor);
        }
        """,
    )
    write(
        tmp_path / "tests" / "assets" / "golden.py",
        """
        import torch
        __golden__ = {"aclnn": {"aclnnRamp": "ramp"}}
        def ramp(low, high, closed, out, **kwargs):
            assert closed is None
            return torch.arange(low, high, dtype=out.dtype)
        """,
    )
    (suite,) = assets.read(tmp_path)
    assert suite.cases[0].attrs == {"low": 1.0, "high": 5.0}
    assert suite.reference(suite.cases[0], [])[0].tolist() == [1, 2, 3, 4]


def test_lists_without_a_default_are_guessed_with_one_and_with_two_numbers(tmp_path):
    definition = read_definition(
        write(
            tmp_path / "pool_def.cpp",
            """
            class Lists : public OpDef { public: Lists(const char* name) : OpDef(name) {
            this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT});
            this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT});
            this->Attr("pads").AttrType(REQUIRED).ListInt();
            } };
            """,
        )
    )
    guesses = [c.attrs["pads"] for c in assets.guessed_cases("pool", definition)]
    assert guesses == sorted(guesses, key=len) and guesses[0] == [1] and guesses[-1] == [1, 1]


# -- cann-bench -------------------------------------------------------------------------------------------------------

PROTO = """
operator:
  name: ScaledAdd
  attrs:
  - {name: scale, type: float}
  inputs:
  - {name: x, dtype: [float32]}
  - {name: y, dtype: [float32]}
  - {name: bias, dtype: [float32]}
  outputs:
  - {name: z, dtype: [float32]}
"""

CASES = """
cases:
- {operator: ScaledAdd, case_id: 1, input_shape: [[2, 3], [2, 3], null], dtype: [float32, float32, null],
   attrs: {scale: "1e-1"}, value_range: [-1, 1], note: small}
- {operator: ScaledAdd, case_id: 2, input_shape: [[4], [4], [4]], dtype: [bfloat16, bfloat16, bfloat16],
   attrs: {scale: 2.0}, value_range: [[0, 1], [5, 5], [0, 0]]}
"""


@pytest.mark.torch
def test_cann_bench_task(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("yaml")
    task = tmp_path / "tasks" / "level1" / "scaled_add"
    write(task / "proto.yaml", PROTO)
    write(task / "cases.yaml", CASES)
    write(
        task / "golden.py",
        """
        import torch
        def scaled_add(x: torch.Tensor, y: torch.Tensor, bias=None, scale: float = 1.0):
            assert isinstance(scale, float)
            total = x + scale * y
            return total if bias is None else total + bias
        def get_input(x, y, bias=None, scale=1.0, **kwargs):
            return [x.abs(), y, bias]
        """,
    )
    (suite,) = find_suites(tmp_path)
    assert suite.format == "cann-bench" and suite.name == "scaled_add" and len(suite.cases) == 2
    assert suite.cases[1].tensors[1].fill == Fill("uniform", 5, 5)
    assert isinstance(suite.cases[0].arguments[2], Absent)
    assert all(r.status == PASSED for r in run_all(suite))
    x, y, _ = suite.inputs(suite.cases[0])
    assert (x >= 0).all() and np.allclose(suite.reference(suite.cases[0], (x, y, None))[0], x + 0.1 * y)
    cann_bench.write(tmp_path / "again", suite.cases)
    write(tmp_path / "again" / "proto.yaml", PROTO)
    again = cann_bench.read(tmp_path / "again")
    assert [c.arguments for c in again.cases] == [c.arguments for c in suite.cases]
    (tmp_path / "again" / "cases.yaml").unlink()
    assert [c.arguments for c in cann_bench.read(tmp_path / "again").cases] == [c.arguments for c in suite.cases]


def test_operator_names_of_cann_bench():
    assert [cann_bench.snake(n) for n in ("Gelu", "GroupNorm", "NMS", "MoeGatingTopK")] == [
        "gelu", "group_norm", "nms", "moe_gating_top_k"]  # fmt: skip


# -- msopst -----------------------------------------------------------------------------------------------------------

MSOPST = [
    {
        "case_name": "Test_Add_001",
        "op": "Add",
        "calc_expect_func_file": "expect.py:calc_expect_func",
        "input_desc": [
            {"format": ["ND", "ND"], "type": ["float16", "float"], "shape": [4, 5], "data_distribute": ["normal"],
             "value_range": [[0.1, 1.0]], "name": "x1"},
            {"format": ["ND"], "type": ["float16", "float"], "shape": [-1, 5], "typical_shape": [4, 5], "name": "x2"},
        ],
        "output_desc": [{"format": ["ND"], "type": ["float16", "float"], "shape": [4, 5], "name": "y"}],
        "attr": [{"name": "scale", "type": "int", "value": 3}],
    },
    {
        "case_name": "Fuzz",
        "op": "Add",
        "fuzz_impl": "fuzz.py",
        "fuzz_case_num": 3,
        "input_desc": [
            {"format": ["ND"], "type": ["int32"], "shape": "fuzz", "name": "x1"},
            {"format": ["ND"], "type": ["int32"], "shape": [2], "value": [1, 2], "name": "x2"},
        ],
        "output_desc": [{"format": ["ND"], "type": ["int32"], "shape": [2], "name": "y"}],
        "attr": [{"name": "scale", "type": "int", "value": 1}],
    },
]  # fmt: skip


def msopst_file(tmp_path):
    write(
        tmp_path / "expect.py",
        "def calc_expect_func(x1, x2, y, scale):\n    return [(x1['value'] + x2['value'] * scale).astype(x1['value'].dtype)]",
    )
    write(tmp_path / "fuzz.py", "def fuzz_branch():\n    return {'input_desc': {'x1': {'shape': [2]}}}")
    return write(tmp_path / "add_case.json", json.dumps(MSOPST))


def test_msopst_combinations_fuzz_and_golden(tmp_path):
    (suite,) = find_suites(msopst_file(tmp_path))
    names = [c.name for c in suite.cases]
    assert names[:3] == ["Test_Add_001_case_001", "Test_Add_001_case_002", "Fuzz_fuzz_case_001"] and len(names) == 5
    assert [c.tensors[0].dtype for c in suite.cases[:2]] == ["float16", "float"]
    assert suite.cases[0].tensors[0].fill.kind == "normal" and suite.cases[0].tensors[1].shape == (4, 5)
    assert suite.cases[2].arrays()[1].tolist() == [1, 2]
    assert all(r.status == PASSED for r in run_all(suite))
    x1, x2 = suite.inputs(suite.cases[1])
    assert np.allclose(suite.reference(suite.cases[1], (x1, x2))[0], x1 + 3 * x2)


def test_a_prototype_of_an_operator_is_no_case_file(tmp_path):
    described = [{"name": "x", "param_type": "required", "format": ["ND"], "type": ["float16"]}]
    prototype = [{"op": "Add", "language": "cpp", "input_desc": described, "output_desc": described}]
    assert not msopst.is_case_file(write(tmp_path / "add.json", json.dumps(prototype)))
    assert msopst.is_case_file(msopst_file(tmp_path))


def test_msopst_round_trip_and_report(tmp_path):
    suite = msopst.read(msopst_file(tmp_path))
    msopst.write(tmp_path / "again.json", suite.cases)
    again = msopst.read(tmp_path / "again.json").cases
    assert [(c.name, c.arguments, c.attrs) for c in again] == [(c.name, c.arguments, c.attrs) for c in suite.cases]
    msopst.write_report(tmp_path / "st_report.json", [(suite.cases[0], True, "ok"), (suite.cases[1], False, "off")])
    report = json.loads((tmp_path / "st_report.json").read_text())
    assert report["summary"] == {"test case count": 2, "success count": 1, "failed count": 1}
    assert [r["status"] for r in report["report_list"]] == ["success", "failed"]


@pytest.mark.parametrize(
    ("change", "words"),
    [({"data_distribute": ["gauss"]}, "gauss"), ({"shape": "fuzz"}, "fuzz"), ({"shape": [-1]}, "typical_shape")],
)
def test_msopst_mistakes_are_named(tmp_path, change, words):
    entry = json.loads(json.dumps(MSOPST[0]))
    entry["input_desc"][0].update(change)
    with pytest.raises(FormatError, match=words):
        msopst.read(write(tmp_path / "bad.json", json.dumps([entry])))


# -- survey and finding -----------------------------------------------------------------------------------------------


def test_survey_counts_what_runs(tmp_path):
    make_pair(tmp_path / "good")
    make_pair(tmp_path / "wrong", good=False)
    folder = tmp_path / "scale"
    write(folder / "op_host" / "scale_def.cpp", DEFINITION)
    write(
        folder / "tests" / "assets" / "golden.py", ASSET.replace('"scale_golden"', '"scale_golden", "lost": "nowhere"')
    )
    found = list(survey(tmp_path, timeout_s=20))
    totals = summary(found)
    assert (totals["script pair"]["found"], totals["script pair"]["ran"]) == (2, 1)
    assert (totals["test asset"]["found"], totals["test asset"]["ran"]) == (2, 1)
    assert "nowhere" in next(f.reason for f in found if f.name == "lost")


def test_a_hanging_reference_is_stopped(tmp_path):
    write(tmp_path / "op_host" / "hang_def.cpp", DEFINITION)
    write(
        tmp_path / "tests" / "assets" / "golden.py",
        '__golden__ = {"kernel": {"hang": "hang"}}\ndef hang(x, factor, **k):\n    while True:\n        pass',
    )
    (finding,) = [f for f in survey(tmp_path, timeout_s=0.2) if f.kind == "test asset"]
    assert not finding.ran and "longer than" in finding.reason


def test_nothing_to_read_says_what_is_read(tmp_path):
    with pytest.raises(FormatError, match="TOML case file"):
        find_suites(tmp_path)


def test_asset_without_table_uses_the_unit_tests_shapes(tmp_path):
    folder = tmp_path / "scale"
    write(folder / "op_host" / "scale_def.cpp", DEFINITION)
    write(folder / "tests" / "assets" / "golden.py", ASSET)
    write(
        folder / "tests" / "ut" / "op_host" / "test_scale_tiling.cpp",
        """
        int64_t factors[] = {3};
        gert::TilingContextPara para(
            "Scale",
            {{{{2, 7}, {2, 7}}, ge::DT_FLOAT16, ge::FORMAT_ND},
             {{{1}, {1}}, ge::DT_FLOAT, ge::FORMAT_ND, true, factors}},
            {{{{2, 7}, {2, 7}}, ge::DT_FLOAT16, ge::FORMAT_ND}},
            {gert::TilingContextPara::OpAttr("bias", Ops::Math::AnyValue::CreateFrom<float>(2.5f)),
             {"axes", Ops::Math::AnyValue::CreateFrom<std::vector<int64_t>>({1, -1})}},
            &compileInfo);
        gert::TilingContextPara dynamic("Scale", {{{{-1, 7}, {-1, 7}}, ge::DT_FLOAT16, ge::FORMAT_ND}}, {}, &compileInfo);
        """,
    )
    (suite,) = assets.read(folder)
    first = suite.cases[0]
    assert first.name == "scale_unit_0" and "guess" in suite.cases[1].name
    assert [(t.name, t.dtype, t.shape) for t in first.tensors] == [("x", "float16", (2, 7)), ("factor", "float", (1,))]
    assert first.attrs == {"bias": 2.5, "axes": [1, -1], "keep": False} and first.arrays()[1].tolist() == [3]
    result = execute(suite, first, ReferenceRunner(suite))
    assert result.status == PASSED, result.message

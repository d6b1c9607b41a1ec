"""Tuning what people have: tile functions, projects, kernels with macros; wrong points never win; the command."""

from __future__ import annotations

import contextlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from toprope.cli import main
from toprope.errors import BadInput
from toprope.tune.decision import decide, header, key
from toprope.tune.explain import sentences
from toprope.tune.page import tune_page
from toprope.tune.search import METHODS
from toprope.tune.store import Store
from toprope.tune.subject import Recipe, identity, open_subject
from toprope.tune.tuning import NothingRight, Tuned, across, tune
from toprope.tune.workers import workers

ROOT = Path(__file__).resolve().parents[2]
TILES = str(ROOT / "examples" / "09_tile" / "kernels.py")
ADD = str(ROOT / "toprope" / "ops" / "add") + ":Add"
SOFTMAX = str(ROOT / "toprope" / "ops" / "softmax") + ":Softmax"
KERNEL = """
#include "kernel_operator.h"
using namespace AscendC;
#ifndef TILE
#define TILE 256
#endif
#ifndef SHORT
#define SHORT 0
#endif
extern "C" __global__ __aicore__ void twice(GM_ADDR x, GM_ADDR y, int32_t total) {
    GlobalTensor<float> from, to;
    const int32_t each = total / GetBlockNum(), at = each * GetBlockIdx();
    from.SetGlobalBuffer((__gm__ float*)x + at, each);
    to.SetGlobalBuffer((__gm__ float*)y + at, each);
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 1, TILE * 4);
    pipe.InitBuffer(out, 1, TILE * 4);
    for (int32_t i = 0; i < each / TILE - SHORT; i++) {
        auto a = in.AllocTensor<float>();
        DataCopy(a, from[i * TILE], TILE);
        in.EnQue(a);
        a = in.DeQue<float>();
        auto b = out.AllocTensor<float>();
        Add(b, a, a, TILE);
        out.EnQue(b);
        in.FreeTensor(a);
        b = out.DeQue<float>();
        DataCopy(to[i * TILE], b, TILE);
        out.FreeTensor(b);
    }
}
"""
LAUNCH = """
[twice]
blocks = 4
[twice.arguments]
x = "float[65536]"
y = "float[65536] out"
total = 65536
[twice.reference]
y = "x + x"
"""


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    (tmp_path / "twice.cpp").write_text(KERNEL)
    (tmp_path / "twice.toml").write_text(LAUNCH)
    return tmp_path / "twice.cpp"


def tuned(recipe: Recipe, tmp_path: Path, **options: Any) -> Tuned:
    with workers("local", 1) as pool:
        return tune(recipe, pool, store=Store("test", tmp_path), **options)


def test_a_kernels_macro(kernel: Path, tmp_path: Path) -> None:
    found = tuned(Recipe(str(kernel), "ascend910b1", parameters=("TILE=256,1024,4096,16384,65536",)), tmp_path)
    assert found.winner == {"TILE": 16384} and found.gain > 1.5 and found.default.us and not found.rejected
    refused = {p["TILE"]: m.reason for p, m in found.found.tried if m.us is None}
    assert all("buffer-over-capacity" in r for r in refused.values()) and set(refused) <= {65536}


def test_a_faster_point_that_is_wrong_does_not_win(kernel: Path, tmp_path: Path) -> None:
    found = tuned(Recipe(str(kernel), "ascend910b1", parameters=("TILE=4096", "SHORT=0,1,2")), tmp_path)
    assert found.winner == {"TILE": 4096, "SHORT": 0} and {p["SHORT"] for p, _ in found.rejected} == {1, 2}
    assert any("is predicted faster and is not right: y failed" in s for s in sentences(found))


def test_nothing_right_is_an_error(kernel: Path, tmp_path: Path) -> None:
    kernel.write_text(KERNEL.replace("#define SHORT 0", "#define SHORT 1"))
    with pytest.raises(NothingRight, match="none of 1 points"):
        tuned(Recipe(str(kernel), "ascend910b1", parameters=("SHORT=1",)), tmp_path)


def test_a_projects_tiling_is_found_out(tmp_path: Path) -> None:
    recipe = Recipe(SOFTMAX, "ascend910b1", inputs=("float32[96,256]",))
    found = tuned(recipe, tmp_path, most=16)
    names = {p.name for p in found.space.parameters}
    assert "tileRows" in names and not names & {"rows", "columns", "pieceColumns", "partColumns"}
    assert found.measure.us and found.default.us and found.measure.us <= found.default.us
    assert not open_subject(recipe).verify(found.winner)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, shape", [("add", {"N": 1 << 20}), ("softmax", {"M": 512, "N": 1024}), ("rms_norm", {"M": 512, "N": 2048})]
)
def test_a_tile_function_against_all_points(name: str, shape: dict[str, int], tmp_path: Path) -> None:
    recipe = Recipe(f"{TILES}:{name}", "ascend910b1", tuple(shape.items()))
    best, every = (tuned(recipe, tmp_path, method=m) for m in ("model", "exhaustive"))
    assert best.measure.us and every.measure.us and best.measure.us <= every.measure.us / 0.97


def test_what_was_predicted_is_not_predicted_again(kernel: Path, tmp_path: Path) -> None:
    recipe = Recipe(str(kernel), "ascend910b1", parameters=("TILE=1024,2048",))
    first, second = (tuned(recipe, tmp_path) for _ in range(2))
    assert len(Store("test", tmp_path)) == 3, "the store that was given is the one that is used"
    assert first.asked == 3 and second.asked == 0 and second.winner == first.winner
    before = identity(open_subject(recipe))
    kernel.with_suffix(".toml").write_text(LAUNCH.replace("blocks = 4", "blocks = 8"))
    assert identity(open_subject(recipe)) != before


def test_the_result_does_not_depend_on_the_number_of_workers(kernel: Path, tmp_path: Path) -> None:
    recipe = Recipe(str(kernel), "ascend910b1", parameters=("TILE=512,1024,2048,4096",))
    one = tuned(recipe, tmp_path / "one")
    with workers("local", 2) as pool:
        two = tune(recipe, pool, store=Store("test", tmp_path / "two"))
    assert (one.found.tried, one.winner, one.measure) == (two.found.tried, two.winner, two.measure)


def test_a_state_makes_it_slower(kernel: Path, tmp_path: Path) -> None:
    recipe = Recipe(str(kernel), "ascend910b1", parameters=("TILE=4096",))
    slow = Recipe(str(kernel), "ascend910b1", parameters=("TILE=4096",), state=(("clock", 0.5),))
    quick, throttled = (open_subject(r).measure({"TILE": 4096}).us for r in (recipe, slow))
    assert quick and throttled and throttled > 1.3 * quick


def test_the_command(kernel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tune", str(kernel), "--parameter", "TILE=1024,4096", "--workers", "1", "--quiet"]
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "toprope.tune/1"
    assert document["tuned"][0]["winner"] == {"TILE": 4096} and document["tuned"][0]["explained"]
    assert main([*words, "--write", str(tmp_path / "twice.h"), "--html", str(tmp_path / "t.html")]) == 0
    said = capsys.readouterr().out
    assert "winner    TILE = 4096" in said and "return {4096};" in (tmp_path / "twice.h").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing.txt"], "is nothing that can be tuned"),
        ([f"{TILES}:add"], "N is missing"),
        ([f"{TILES}:add", "--shape", "N=0"], "is not DIM=N"),
        ([f"{TILES}:add", "--shape", "N=8", "--parameter", "Q=1,2"], "there is no parameter Q"),
        ([f"{TILES}:add", "--shape", "N=8", "Q=8"], "add has no dimension Q"),
        ([f"{TILES}:add", "--shape", "N=8", "--write", "choice.txt"], "--write choice.txt"),
        ([SOFTMAX], "inputs are not given"),
        ([SOFTMAX, "--input", "float99[8]"], "no element type with a shape"),
        ([f"{TILES}:add", "--shape", "N=8", "--state", "moon=1"], "--state"),
        ([f"{TILES}:add", "--shape", "N=8", "--workers", "0"], "--workers"),
        ([f"{TILES}:add", "--shape", "N=8", "--soc", "nosuch"], "unknown chip"),
    ],
)
def test_bad_input_is_one_message(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", *words, "--quiet"]) == 2
    assert said in capsys.readouterr().err


def test_searches_are_listed_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(SystemExit):
        main(["tune", "--help"])
    said = capsys.readouterr().out
    assert all(m in said for m in METHODS)


def test_a_kernel_without_named_constants(kernel: Path) -> None:
    with pytest.raises(BadInput, match="constants have to be named"):
        open_subject(Recipe(str(kernel), "ascend910b1"))
    for name in ("WIDTH", "T"):  # T stands in the text, and is no macro of it
        with pytest.raises(BadInput, match=f"has no {name} that -D may set"):
            open_subject(Recipe(str(kernel), "ascend910b1", parameters=(f"{name}=1,2",)))
    with pytest.raises(BadInput, match="what its launch file says"):
        open_subject(Recipe(str(kernel), "ascend910b1", shape=(("N", 8),), parameters=("TILE=256,512",)))


def test_todays_number_is_what_stands_in_the_source(kernel: Path, tmp_path: Path) -> None:
    found = tuned(Recipe(str(kernel), "ascend910b1", parameters=("TILE=1024,4096", "blocks=8")), tmp_path)
    assert found.space.default == {"TILE": 256, "blocks": 4}
    own = open_subject(found.recipe).measure({"TILE": 256, "blocks": 4}).us
    assert own and found.default.us == own and found.gain == own / (found.measure.us or 0)
    kernel.write_text(KERNEL.replace("#define TILE 256", "#define TILE (SHORT + 256)"))
    with pytest.raises(BadInput, match="gives TILE no one number"):
        open_subject(Recipe(str(kernel), "ascend910b1", parameters=("TILE=1024,512",)))


def test_a_tiling_that_leaves_out_a_part_of_another_shape_is_not_its_region(tmp_path: Path) -> None:
    """A part for each core that is enough for the short vector computes a part of the long one, and is fast there."""
    base = Recipe(ADD, "ascend910b1", parameters=("coreLength=1024,2048,22016", "tileLength=1024,2048,8192"))
    found = [tuned(base.at(inputs=(f"float16[{n}]",) * 2), tmp_path / str(n)) for n in (40961, 1048576)]
    short, long = (open_subject(t.recipe) for t in found)
    assert not short.verify(found[0].winner) and "differs" in long.verify(found[0].winner)
    assert (long.measure(found[0].winner).us or 1e9) < (found[1].measure.us or 0)
    with workers("local", 1) as pool:
        points, rows = across(found, pool)
    assert rows[1][key(found[0].winner)] is None and rows[0][key(found[0].winner)]
    made = decide([{"N": 40961}, {"N": 1048576}], rows, points)
    assert not long.verify(made.choose({"N": 1048576})) and not short.verify(made.choose({"N": 40961}))


def test_one_region_takes_what_is_right_for_all_or_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["tune", ADD, "--quiet", "--workers", "1", "--parameter", "coreLength=2048,22016", "--regions", "1"]
    for n in (40961, 1048576):
        words += ["--input", *(f"float16[{n}]",) * 2]
    assert main([*words, "--json"]) == 0
    (region,) = json.loads(capsys.readouterr().out)["regions"]
    assert region["point"] == {"coreLength": 22016}  # 2048 is faster on both, and wrong on the second
    rows = [{key({"coreLength": n}): 1.0 if n == own else None for n in (1, 2)} for own in (1, 2)]
    monkeypatch.setattr("toprope.commands.tune.across", lambda *_: ([{"coreLength": 1}, {"coreLength": 2}], rows))
    assert main(words) == 2 and "no tiling is right for every shape" in capsys.readouterr().err


def test_every_region_gives_every_number(tmp_path: Path) -> None:
    """tileRows is no parameter of 8 rows: there it is what the host proposes, and the header has it all the same."""
    base = Recipe(SOFTMAX, "ascend910b1")
    found = [tuned(base.at(inputs=(i,)), tmp_path / i[5:8]) for i in ("float32[8,4096]", "float32[64,256]")]
    assert found[0].winner.keys() < found[1].winner.keys()
    with workers("local", 1) as pool:
        points, rows = across(found, pool)
    assert all(p.keys() == found[1].winner.keys() for p in points)
    shapes = [{"x0_0": 8, "x0_1": 4096}, {"x0_0": 64, "x0_1": 256}]
    text = header("my-softmax", decide(shapes, rows, points), shapes)
    (tmp_path / "h.cpp").write_text(text)
    subprocess.run(["g++", "-std=c++17", "-fsyntax-only", tmp_path / "h.cpp"], check=True)
    assert "int64_t tileRows;" in text and "int64_t blocks;" in text and "x0_0 = 8, x0_1 = 4096" in text


def test_shapes_of_different_ranks_are_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tune", SOFTMAX, "--quiet", "--workers", "1", "--parameter", "blocks=1,8", "--json"]
    assert main([*words, "--input", "float32[8,256]", "--input", "float32[2,4,256]"]) == 2
    assert "different numbers of dimensions" in capsys.readouterr().err


def test_what_is_kept_depends_on_every_header(tmp_path: Path) -> None:
    (tmp_path / "size.h").write_text("#define TILE 256\n")
    (tmp_path / "twice.cpp").write_text(KERNEL.replace("#define TILE 256", '#include "size.h"'))
    (tmp_path / "twice.toml").write_text(LAUNCH)
    recipe = Recipe(str(tmp_path / "twice.cpp"), "ascend910b1", parameters=("TILE=256,512",))
    before = identity(open_subject(recipe))
    (tmp_path / "size.h").write_text("#define TILE 256 \n")
    assert identity(open_subject(recipe)) != before
    outside = ROOT / "toprope" / "ops" / "rows" / "row_cuts.h"
    assert outside in open_subject(Recipe(SOFTMAX, "ascend910b1", inputs=("float32[8,256]",))).sources()


def test_the_page_shows_each_point_and_what_is_wrong_with_it(kernel: Path, tmp_path: Path) -> None:
    found = tuned(Recipe(str(kernel), "ascend910b1", parameters=("TILE=1024,4096,65536", "SHORT=0,1")), tmp_path)
    text = tune_page(found)
    assert text.count('<tr id="p') == len(found.found.tried) and "the winner" in text and "buffer-over-capacity" in text
    assert (
        "TILE against SHORT" in text.replace("SHORT against TILE", "TILE against SHORT") and 'class="s0 best"' in text
    )
    assert text.count("y failed") >= len(found.rejected) > 0

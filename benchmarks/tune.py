"""How near does `toprope tune` come to the best of all points, and how many predictions does it need? (--all: more cases)"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from toprope.ops import FOLDER
from toprope.tune.space import Space
from toprope.tune.store import Store
from toprope.tune.subject import Recipe, open_subject
from toprope.tune.tuning import Tuned, tune
from toprope.tune.workers import workers

TILES = Path(__file__).parents[1] / "examples" / "09_tile" / "kernels.py"
PROJECTS = (
    ("softmax:Softmax", ("float32[1024,1024]",)),
    ("softmax:Softmax", ("float16[4096,512]",)),
    ("softmax:Softmax", ("float16[333,2000]",)),
    ("rms_norm:RmsNorm", ("float16[1024,4096]", "float16[4096]")),
    ("layer_norm:LayerNorm", ("float16[512,2048]", "float16[2048]", "float16[2048]")),
)
MORE_PROJECTS = (
    ("softmax:Softmax", ("float32[64,8192]",)),
    ("rms_norm:RmsNorm", ("float32[4096,1024]", "float32[1024]")),
    ("matmul:Matmul", ("float16[1024,1024]", "float16[1024,1024]")),
)
FUNCTIONS = (("add", {"N": 1 << 20}),)
MORE_FUNCTIONS = (
    ("add_half", {"N": 1 << 18}),
    ("softmax", {"M": 1024, "N": 1024}),
    ("rms_norm", {"M": 1024, "N": 2048}),
)


def recipes(every: bool) -> list[Recipe]:
    """The cases."""
    projects = PROJECTS + (MORE_PROJECTS if every else ())
    functions = FUNCTIONS + (MORE_FUNCTIONS if every else ())
    made = [
        Recipe(f"{FOLDER / name.partition(':')[0]}:{name.partition(':')[2]}", "ascend910b1", inputs=inputs)
        for name, inputs in projects
    ]
    return made + [Recipe(f"{TILES}:{name}", "ascend910b1", tuple(shape.items())) for name, shape in functions]


def row(recipe: Recipe, folder: Path) -> dict[str, Any]:
    """One case: the search, then all points, of which the fastest right one is the best."""
    space: Space = open_subject(recipe).space
    found: list[Tuned] = []
    for method in ("model", "exhaustive"):
        with workers("local", 2) as pool:
            found.append(tune(recipe, pool, method=method, store=Store(method, folder)))
    model, every = found
    assert model.measure.us and every.measure.us
    return {
        "name": recipe.target.rpartition(":")[2]
        + " "
        + (" ".join(recipe.inputs[:1]) or ", ".join(f"{d} {n}" for d, n in recipe.shape)),
        "points": space.size,
        "predictions": sum(not m.too_large for _, m in model.found.tried),
        "share of the predictions": round(
            sum(not m.too_large for _, m in model.found.tried) / sum(not m.too_large for _, m in every.found.tried), 4
        ),
        "chosen_us": model.measure.us,
        "best_us": every.measure.us,
        "today_us": model.default.us,
        "share of the best": round(every.measure.us / model.measure.us, 4),
    }


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    rows = []
    for i, recipe in enumerate(recipes(args.all)):
        with tempfile.TemporaryDirectory() as folder:
            rows.append({"case": i, **row(recipe, Path(folder))})
    shares = [r["share of the best"] for r in rows]
    print(json.dumps({"cases": rows, "least_share": min(shares), "mean_share": round(statistics.mean(shares), 4)}))


if __name__ == "__main__":
    main()

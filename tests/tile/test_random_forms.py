"""Random forms: element-wise work, masks with tails, broadcasts, reductions, transpositions, gathers, loops and branches; emitted bits are level A's."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from toprope.tile.form.builder import Builder
from toprope.tile.form.evaluate import evaluate
from toprope.tile.form.nodes import Argument, Form, Type, Value, Variable, boolean, f16, f32, i32
from toprope.tile.form.verify import verify
from toprope.tile.front_triton.kernel import FormProgram
from toprope.tile.kernel import loaded, written

SHAPES = [(64,), (128,), (16, 32), (32, 16), (4, 8), (8, 64), (3, 40), (2, 8, 16)]
FLOAT_OPS = ["add", "sub", "mul", "max", "min", "div"]
WHOLE_OPS = ["add", "sub", "mul", "max", "min", "floordiv", "mod", "and", "or", "xor"]


class Author:
    """Writes one random form; `self.random` decides."""

    def __init__(self, seed: int) -> None:
        self.random, self.b = random.Random(seed), Builder()
        self.tiles: list[Value] = []
        self.n = self.b.value("argument", Type(i32), name="n")

    def pick(self, kind: Any = None, shape: tuple[int, ...] | None = None) -> Value:
        """A tile that exists, brought to a type and shape."""
        x = self.random.choice(self.tiles)
        if kind is not None:
            x = self.b.cast(x, kind)
        if shape is not None and x.shape != shape:
            x = self.shaped(x, shape)
        return x

    def shaped(self, x: Value, shape: tuple[int, ...]) -> Value:
        """Lanes of x gathered into other extents."""
        size = Type(f32, shape).size
        flat = self.b.reshape(x, (x.type.size,))
        places = self.b.value("iota", Type(i32, (size,)))
        extent = self.b.splat(self.b.constant(x.type.size), (size,))
        found = self.b.value("gather", Type(x.dtype, (size,)), flat, self.b.apply("mod", places, extent), axis=0)
        return self.b.reshape(found, shape)

    def offsets(self, shape: tuple[int, ...]) -> tuple[Value, Value]:
        """Places in an array of n elements, and the mask of those inside."""
        total: Value | None = None
        stride = 1
        for axis in reversed(range(len(shape))):
            lanes = self.b.value("iota", Type(i32, (shape[axis],)))
            lanes = self.b.broadcast(
                self.b.reshape(lanes, tuple(shape[axis] if k == axis else 1 for k in range(len(shape)))), shape
            )
            lanes = self.b.apply("mul", lanes, self.b.splat(self.b.constant(stride), shape))
            total = lanes if total is None else self.b.apply("add", lanes, total)
            stride *= shape[axis] + self.random.choice([0, 0, 3])
        assert total is not None
        step = self.b.apply(
            "mul", self.b.value("program", Type(i32), axis=0), self.b.constant(self.random.choice([0, 5, 64]))
        )
        total = self.b.apply("add", total, self.b.splat(step, shape))
        mask = self.b.apply("lt", total, self.b.splat(self.n, shape))
        if self.random.random() < 0.4:
            low = self.b.splat(self.b.constant(self.random.randrange(9)), shape)
            mask = self.b.apply("and", mask, self.b.apply("ge", total, low))
        return total, mask

    def load(self) -> Value:
        """A tile of x, h or i."""
        name, kind = self.random.choice([("x", f32), ("h", f16), ("i", i32)])
        offset, mask = self.offsets(self.random.choice(SHAPES))
        return self.b.value("load", Type(kind, offset.shape), offset, mask, array=name, masked=True, other=False)

    def step(self) -> Value:
        """One more value."""
        b, r = self.b, self.random
        which = r.randrange(9)
        x = self.pick()
        if which == 0:
            return self.load()
        if which == 1 and x.dtype != boolean:
            ops = WHOLE_OPS if x.dtype == i32 else FLOAT_OPS
            return b.apply(r.choice(ops), x, self.pick(x.dtype, x.shape))
        if which == 2:
            y = b.cast(x, f32)
            return b.apply(
                r.choice(["exp", "abs", "sqrt", "floor", "rint"]),
                b.apply("min", y, b.splat(b.constant(4.0, f32), y.shape)),
            )
        if which == 3:
            other = self.pick(x.dtype, x.shape)
            return b.apply(
                r.choice(["eq", "ne"] if x.dtype == boolean else ["lt", "le", "eq", "ne", "gt", "ge"]), x, other
            )
        if which == 4:
            y = self.pick(r.choice([f32, f16, i32]), x.shape)
            return b.select(b.cast(x, boolean), y, self.pick(y.dtype, x.shape))
        if which == 5 and x.dtype in (f32, i32) and len(x.shape) > 1:
            axis = r.randrange(len(x.shape))
            kept = tuple(1 if k == axis else e for k, e in enumerate(x.shape))
            return b.broadcast(b.reshape(b.reduce(r.choice(["sum", "max", "min"]), x, axis), kept), x.shape)
        if which == 6 and len(x.shape) > 1:
            axes = list(range(len(x.shape)))
            r.shuffle(axes)
            return b.transpose(x, tuple(axes))
        if which == 7:
            axis = r.randrange(len(x.shape))
            half = x.shape[axis] // 2
            parts = [b.slice(x, axis, half, x.shape[axis] - half), b.slice(x, axis, 0, half)]
            return b.join(parts, axis)
        return b.cast(x, r.choice([f32, f16, i32, boolean]))

    def flow(self) -> None:
        """A loop or branch that changes a tile."""
        x = self.pick(f32)
        variable = Variable("acc", x.type)
        self.b.set(variable, x)
        index, body = Variable("k", Type(i32)), list[Any]()
        condition = self.b.apply("gt", self.n, self.b.constant(50))
        with self.b.inside(body):
            now = self.b.value("read", x.type, variable=variable)
            self.b.set(variable, self.b.apply(self.random.choice(FLOAT_OPS[:5]), now, self.pick(f32, x.shape)))
        if self.random.random() < 0.5:
            self.b.loop(index, self.b.constant(0), self.b.constant(3), self.b.constant(1), body)
        else:
            self.b.branch(condition, body, [])
        self.tiles.append(self.b.value("read", x.type, variable=variable))

    def write(self) -> Form:
        """The form: y = some of what was computed."""
        self.tiles = [self.load() for _ in range(2)]
        for _ in range(self.random.randrange(3, 9)):
            if self.random.random() < 0.2:
                self.flow()
            else:
                self.tiles.append(self.step())
        x = self.b.cast(self.tiles[-1], f32)
        lanes = self.b.value("iota", Type(i32, (x.type.size,)))
        step = self.b.apply("mul", self.b.value("program", Type(i32), axis=0), self.b.constant(1024))
        offset = self.b.apply("add", self.b.reshape(lanes, x.shape), self.b.splat(step, x.shape))
        self.b.store("y", f32, offset, x)
        arrays = [
            Argument("x", f32, True),
            Argument("h", f16, True),
            Argument("i", i32, True),
            Argument("y", f32, True),
            Argument("n", i32, False),
        ]
        self.random.shuffle(arrays)
        return Form("random_form", "<random>", tuple(arrays), self.b.block)


def check(seed: int) -> None:
    """One random form: level A and the emitted kernel agree bit for bit, and nothing is found."""
    form = Author(seed).write()
    verify(form)
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 300))
    data: dict[str, Any] = {
        "x": rng.standard_normal(n).astype(np.float32), "h": rng.standard_normal(n).astype(np.float16), "n": n,
        "i": rng.integers(-9, 10, n).astype(np.int32), "y": np.zeros(3072, np.float32),
    }  # fmt: skip
    level_a = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in data.items()}
    program = FormProgram(form)
    kernel = loaded(written("random_form", program.text(line_directives=False)))["random_form"]
    arrays = [a.name for a in form.arguments if a.is_array]
    run = kernel(*(data[a] for a in arrays), n, 3, 1, 1, blocks=2)
    evaluate(form, level_a, (3,))
    same = (level_a["y"] == data["y"]) | (np.isnan(level_a["y"]) & np.isnan(data["y"]))
    assert same.all(), f"seed {seed}: {np.count_nonzero(~same)} lanes differ"
    found = [f.code for f in run.findings if f.severity != "advice" and f.code != "argument-never-used"]
    assert found == [], f"seed {seed}: {found}"


def test_a_random_form() -> None:
    check(1)


@pytest.mark.slow
@pytest.mark.parametrize("group", range(50))
def test_random_forms(group: int) -> None:
    for seed in range(10 * group, 10 * group + 10):
        check(seed)

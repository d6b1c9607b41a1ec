"""Kernels that the tile language makes of the one-line definitions (definitions.py) for the tensors of a call."""

from __future__ import annotations

import hashlib
import importlib.util
import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from toprope.cache import cache_dir
from toprope.errors import TopropeError
from toprope.toolkit.calls import Call, NotServed, Tensor
from toprope.toolkit.definitions import COMPARED, ELEMENTS, FOREACH, GELU_TANH, REDUCED, ROWS, WHOLE
from toprope.toolkit.operator_library import table

SIZES = (8192, 4096, 2048, 1024, 512)  # elements of a tile, the first that fits
_LOADED = {"f32": "{0}", "f16": "{0}.to(f32)", "bf16": "{0}.to(f32)", "bool": "{0}.to(f16).to(f32)", "i32": "{0}"}
_STORED = {"f32": "{0}", "f16": "({0}).to(f16)", "bf16": "({0}).to(bf16)", "bool": "({0}).to(f16).to(i8)", "i32": "{0}"}
_HEAD = "from toprope import tile\nfrom toprope.tile import In, Out, bf16, f16, f32, i8, i32, i64\n\n\n@tile.kernel\n"


@dataclass(frozen=True)
class Generated:
    """A kernel for a call: its text in the tile language, its arrays (which tensors of the call), and its dimensions."""

    name: str
    text: str
    arrays: tuple[Tensor, ...]
    dims: dict[str, int]


def generated(call: Call) -> list[Generated]:
    """The launches that answer a call, one unless it is of lists. Raises NotServed with the reason where there is no definition for it."""
    name = call.function.removeprefix("aclnn")
    if name.startswith("Foreach"):
        return _lists(call, name.removeprefix("Foreach"))
    plain = name if name in ELEMENTS or name in COMPARED else name.removeprefix("Inplace")
    if plain in ELEMENTS or plain in COMPARED or name == "GeluV2":
        return [_elements(call, plain)]
    if name in REDUCED:
        return [_reduction(call, REDUCED[name])]
    if name in ROWS:
        return [_rows(call, name)]
    if name in OTHERS:
        return [OTHERS[name](call)]
    raise NotServed("no definition in the tile language")


# ---- element by element -----------------------------------------------------------------------------------------------------------------


def _elements(call: Call, plain: str) -> Generated:
    names = [p.name for p in table()[call.function]]
    in_place = call.function.startswith("aclnnInplace")
    out = call.tensor(0 if in_place else len(names) - 1)
    read = [t for at in range(len(names) - (not in_place)) for t in call.tensors_of(at)]
    numbers = [v for at in range(len(names) - (not in_place)) if (v := call.number(at)) is not None]
    expression = {**ELEMENTS, **COMPARED}.get(plain, GELU_TANH)
    if plain == "GeluV2" and call.number(1) != 1:
        raise NotServed("the error function has no instruction of its own")
    if plain == "Cast":
        numbers = []
    if "{power}" in expression:
        power = numbers[0]
        if power not in (0.5, -0.5, -1) and not (power == int(power) and 1 <= power <= 8):
            raise NotServed(f"a power of {power}")
        expression, numbers = expression.replace("{power}", repr(int(power) if power == int(power) else power)), []
    return _element_kernel(plain, expression, read, numbers, out, compared=plain in COMPARED)


def _lists(call: Call, plain: str) -> list[Generated]:
    if plain not in FOREACH:
        raise NotServed("no definition in the tile language")
    count = len(table()[call.function])
    lists = [call.tensors_of(at) for at in range(count) if len(call.groups[at]) > 1]
    numbers = [v for at in range(count) if (v := call.number(at)) is not None]
    outs = lists.pop() if plain != "ZeroInplace" else lists[0]
    if not outs or any(len(t) != len(outs) for t in lists):
        raise NotServed("an empty list")
    if re.search(r"\ba\b", FOREACH[plain]) and not numbers:
        raise NotServed("its number lies on the device")
    return [_element_kernel(plain, FOREACH[plain], [t[n] for t in lists], numbers, out) for n, out in enumerate(outs)]


def _element_kernel(
    name: str, expression: str, read: Sequence[Tensor], numbers: Sequence[Any], out: Tensor, *, compared: bool = False
) -> Generated:
    letters = [n for n in "xyw" if re.search(rf"\b{n}\b", expression)]
    used = [(n, t) for n, t in zip("xyw", read, strict=False) if n in letters]
    if len(used) != len(letters):
        raise NotServed("tensors are left out")
    constants = dict(zip("abcd", numbers, strict=False))
    wanted = {n for n in "abcd" if re.search(rf"\b{n}\b", expression)}
    if wanted - set(constants):
        raise NotServed("numbers are left out")
    whole = {t.kind for _, t in used} | {out.kind} == {"i32"}
    if whole and (name not in WHOLE or any(v != int(v) for v in constants.values())):
        raise NotServed("whole numbers")
    if not whole and any(t.kind not in ("f32", "f16", "bf16", "bool") for t in (*(t for _, t in used), out)):
        raise NotServed("element types " + ", ".join(dict.fromkeys(t.type_name for t in (*(t for _, t in used), out))))
    if (out.kind == "bool" and not compared) or (
        any(t.kind == "bool" for _, t in used) and name not in ("SWhere", "InplaceMaskedFillScalar") and not compared
    ):
        raise NotServed("truth values")
    if any(not math.isfinite(v) for v in constants.values()):
        raise NotServed("a number that is not finite")
    for letter, value in constants.items():
        shown = repr(int(value)) if whole else repr(float(value))
        if value == 1 and letter in wanted:  # x + y * 1 is x + y
            expression = re.sub(rf" \* {letter}\b", "", expression)
        expression = re.sub(rf"\b{letter}\b", f"({shown})" if value < 0 else shown, expression)
    ways, dims, order = _spread([t for _, t in used], out)
    index = {"full": "i" if order == 1 else "r, c", "row": "c", "column": "r, None"}
    for (letter, tensor), way in zip(used, ways, strict=True):
        loaded = _LOADED[tensor.kind].format(f"{letter}_[{index[way]}]")
        expression = re.sub(rf"\b{letter}\b(?!_)", loaded, expression)
    words = {"zero": "0", "one": "1", "minus_one": "-1"}
    expression = re.sub(r"\b(zero|one|minus_one)\b", lambda m: _filled(order, words[m[1]], whole=whole), expression)
    expression = re.sub(r"\bfill\((\(?[^()]*\)?)\)", lambda m: _filled(order, m[1], whole=whole), expression)
    if compared:
        expression = f"tile.where({expression}, {_filled(order, '1')}, {_filled(order, '0')})"
    arrays = [
        _array(f"{n}_", t.kind, {"full": "NRC"[0] if order == 1 else "RC", "row": "C", "column": "R"}[w], "In")
        for (n, t), w in zip(used, ways, strict=True)
    ]
    arrays.append(_array("z", out.kind, "N" if order == 1 else "RC", "Out"))
    stored = _STORED[out.kind].format(expression)
    if order == 1:
        body = f"    for i in tile.tiles(z.shape[0], T, depth=2):\n        z[i] = {stored}\n"
        sizes = "T=tile.tune({T}, mult=64)"
    else:
        body = f"    for r, c in tile.tiles((z.shape[0], TR), (z.shape[1], TC), depth=2):\n        z[r, c] = {stored}\n"
        sizes = "TR=tile.tune(8), TC=tile.tune({C}, mult=64)"
    entry = f"{_snake(name)}_{'_'.join(dict.fromkeys((*(t.kind for _, t in used), out.kind)))}"
    text = f"{_HEAD}def {entry}({', '.join(arrays)}, *, {sizes}):\n{body}"
    return Generated(entry, text, (*(t for _, t in used), out), dims)


def _filled(order: int, number: str, *, whole: bool = False) -> str:
    """A tile of one number, as text."""
    value = number.strip("()")
    return f"tile.full({'(i,)' if order == 1 else '(r, c)'}, {int(float(value)) if whole else float(value)}{', i32' if whole else ''})"


def _spread(read: Sequence[Tensor], out: Tensor) -> tuple[list[str], dict[str, int], int]:
    """How each tensor lies in the result: all of it, one row for all rows, or one number for each row."""
    count = math.prod(out.shape)
    if all(t.shape == out.shape for t in read):
        return ["full"] * len(read), {"N": count}, 1
    columns = None
    ways = []
    for t in read:
        shape = (1,) * (len(out.shape) - len(t.shape)) + t.shape
        if shape == out.shape:
            ways.append("full")
            continue
        same = [n for n, (a, b) in enumerate(zip(shape, out.shape, strict=True)) if a == b and b != 1]
        split = next(
            (
                k
                for k in range(len(shape) + 1)
                if all(n >= k for n in same) and all(shape[n] == out.shape[n] for n in range(k, len(shape)))
            ),
            None,
        )
        if same and split is not None and all(shape[n] == 1 for n in range(split)):
            width, way = math.prod(out.shape[split:]), "row"
        elif same and all(shape[n] == out.shape[n] for n in range(same[-1] + 1)):
            width, way = math.prod(out.shape[same[-1] + 1 :]), "column"
        else:
            raise NotServed("shapes that broadcast otherwise than by rows or columns")
        if columns not in (None, width):
            raise NotServed("shapes that broadcast in several ways")
        columns = width
        ways.append(way)
    if columns is None:  # they differ by axes of length 1 in front
        return ways, {"N": count}, 1
    return ways, {"R": count // columns, "C": columns}, 2


def _array(name: str, kind: str, dims: str, way: str) -> str:
    return f"{name}: {way}[{', '.join(repr(d) for d in dims)}, {'i8' if kind == 'bool' else kind}]"


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


# ---- rows -------------------------------------------------------------------------------------------------------------------------------


def _floats(*tensors: Tensor) -> None:
    for t in tensors:
        if t.kind not in ("f32", "f16", "bf16"):
            raise NotServed(f"element type {t.type_name}")


def _reduction(call: Call, how: str) -> Generated:
    x, out = call.tensor(0), call.tensor(len(call.groups) - 1)
    _floats(x, out)
    rank = len(x.shape)
    dims = call.integers(1) if len(call.groups) > 2 else []
    axes = sorted({d % max(rank, 1) for d in dims}) or list(range(rank))
    if not rank:
        raise NotServed("a single number")
    inner = math.prod(x.shape[a] for a in axes)
    name = f"{how}_{x.kind}_{out.kind}"
    start = {
        "sum": "tile.zeros({0})",
        "mean": "tile.zeros({0})",
        "max": "tile.full({0}, -tile.inf)",
        "min": "tile.full({0}, tile.inf)",
    }[how]
    step = {
        "sum": "s + tile.sum({0})",
        "mean": "s + tile.sum({0})",
        "max": "tile.maximum(s, tile.max({0}))",
        "min": "tile.minimum(s, tile.min({0}))",
    }[how]
    x_at = _LOADED[x.kind].format("x[r, c]")
    if axes == list(range(rank - len(axes), rank)):
        body = (
            f"    R, C = x.shape\n    for r in tile.tiles(R, TR, depth=2):\n        s = {start.format('(r, 1)')}\n"
            f"        for c in tile.tiles(C, TC, depth=2):\n            s = {step.format(x_at + ', 1')}\n"
            f"        z[r] = {_STORED[out.kind].format('s / C' if how == 'mean' else 's')}\n"
        )
        shape, result, sizes = (
            (math.prod(x.shape) // max(inner, 1), inner),
            "R",
            "TR=tile.tune(8), TC=tile.tune({C}, mult=64)",
        )
    elif axes == list(range(len(axes))):
        body = (
            f"    R, C = x.shape\n    for c in tile.tiles(C, TC, depth=2):\n        s = {start.format('(c,)')}\n"
            f"        for r in tile.tiles(R, TR, depth=2):\n            s = {step.format(x_at + ', 0')}\n"
            f"        z[c] = {_STORED[out.kind].format('s / R' if how == 'mean' else 's')}\n"
        )
        shape, result, sizes = (
            (inner, math.prod(x.shape) // max(inner, 1)),
            "C",
            "TR=tile.tune(8), TC=tile.tune({C}, mult=64)",
        )
        name += "_down"
    else:
        raise NotServed("axes that are neither the last nor the first")
    head = f"def {name}({_array('x', x.kind, 'RC', 'In')}, {_array('z', out.kind, result, 'Out')}, *, {sizes}):\n"
    return Generated(name, _HEAD + head + body, (x, out), {"R": shape[0], "C": shape[1]})


def _rows(call: Call, name: str) -> Generated:
    count = len(table()[call.function])
    out = call.tensor(count - 1)
    read = [t for at in range(count - 1) for t in call.tensors_of(at)]
    _floats(*read, out)
    dim = next((v for at in range(count) if (v := call.number(at)) is not None), 0)
    if not out.shape or int(dim) % len(out.shape) != len(out.shape) - 1 or any(t.shape != out.shape for t in read):
        raise NotServed("not along the last axis")
    entry = f"{_snake(name)}_{out.kind}"
    body = ROWS[name]
    body = re.sub(r"\{store:(.*)\}", lambda m: _STORED[out.kind].format(m[1]), body)
    for letter, t in zip("xy", read, strict=False):
        body = body.replace(f"{{{letter}}}", _LOADED[t.kind].format(f"{letter}[r, c]"))
    arrays = [_array(n, t.kind, "RC", "In") for n, t in zip("xy", read, strict=False)]
    arrays.append(_array("z", out.kind, "RC", "Out"))
    head = f"def {entry}({', '.join(arrays)}, *, TR=tile.tune(8), TC=tile.tune({{C}}, mult=64)):\n    R, C = z.shape"
    columns = out.shape[-1]
    return Generated(
        entry, _HEAD + head + body + "\n", (*read, out), {"R": math.prod(out.shape) // max(columns, 1), "C": columns}
    )


# ---- products ---------------------------------------------------------------------------------------------------------------------------


def _product(call: Call, a: Tensor, b: Tensor, out: Tensor, bias: Tensor | None = None) -> Generated:
    if any(t.kind not in ("f16", "bf16") for t in (a, b)) or a.kind != b.kind or out.kind != a.kind:
        raise NotServed("products of " + ", ".join(dict.fromkeys(t.type_name for t in (a, b, out))))
    if len(b.shape) != 2 or len(a.shape) < 2 or (len(a.shape) > 2 and not a.dense):
        raise NotServed("products of more than two matrices")
    (k, n), m = b.shape, math.prod(a.shape[:-1])
    over_a, over_b = (not t.dense and t.turned for t in (a, b))
    left = _array("a", a.kind, "KM" if over_a else "MK", "In")
    right = _array("b", b.kind, "NK" if over_b else "KN", "In")
    arrays, tensors = [left, right], [a, b]
    start = "tile.acc((i, j))"
    if bias is not None:
        if bias.kind != "f32" or bias.shape != (n,):
            raise NotServed("a bias that is not one row of float32")
        arrays.append(_array("bias", "f32", "N", "In"))
        tensors.append(bias)
        start = "tile.acc((i, j), bias=bias[j])"
    arrays.append(_array("z", out.kind, "MN", "Out"))
    name = f"matmul{'_ta' if over_a else ''}{'_tb' if over_b else ''}{'_bias' if bias is not None else ''}_{a.kind}"
    text = (
        f"{_HEAD}def {name}({', '.join(arrays)}, *, BM=tile.tune(128), BN=tile.tune(256), BK=tile.tune(64)):\n"
        f"    (M, N), K = z.shape, {'a.shape[0]' if over_a else 'a.shape[1]'}\n    for i, j in tile.tiles((M, BM), (N, BN)):\n        acc = {start}\n"
        f"        for k in tile.tiles(K, BK, depth=2):\n            acc = acc + {'a[k, i].T' if over_a else 'a[i, k]'} @ {'b[j, k].T' if over_b else 'b[k, j]'}\n"
        f"        z[i, j] = acc.to({out.kind})\n"
    )
    turned = [t.as_turned() if (t is a and over_a) or (t is b and over_b) else t for t in tensors]
    return Generated(name, text, (*turned, out), {"M": m, "K": k, "N": n})


def _matmul(call: Call) -> Generated:
    return _product(call, call.tensor(0), call.tensor(1), call.tensor(2))


def _lookup(call: Call) -> Generated:
    """Rows of a table by an index."""
    if call.function == "aclnnIndexSelect" and call.number(1) != 0:
        raise NotServed("not along the first axis")
    rows, at, out = call.tensor(0), call.tensor(len(call.groups) - 2), call.tensor(len(call.groups) - 1)
    if rows.kind not in ("f32", "f16", "bf16", "i32") or at.kind not in ("i32", "i64"):
        raise NotServed(f"element types {rows.type_name}, {at.type_name}")
    name = f"lookup_{rows.kind}_{at.kind}"
    arrays = [_array("at", at.kind, "M", "In"), _array("x", rows.kind, "VD", "In"), _array("z", out.kind, "MD", "Out")]
    text = (
        f"{_HEAD}def {name}({', '.join(arrays)}, *, TR=tile.tune(16), TC=tile.tune({{C}}, mult=64)):\n    M, D = z.shape\n"
        "    for r, c in tile.tiles((M, TR), (D, TC), depth=2):\n        z[r, c] = x[at[r], c]\n"
    )
    count = math.prod(at.shape)
    dims = {"M": count, "V": rows.shape[0] if rows.shape else 0, "D": math.prod(rows.shape[1:])}
    return Generated(name, text, (at, rows, out), dims)


OTHERS: dict[str, Callable[[Call], Generated]] = {
    "Matmul": _matmul, "Mm": _matmul, "MatmulWeightNz": _matmul, "Embedding": _lookup, "IndexSelect": _lookup,
}  # fmt: skip


# ---- the tile language's own doors: a kernel of a text, and what a launch of it is -------------------------------------------------------


@dataclass(frozen=True)
class Launch:
    """A compiled kernel for one shape: what the device library has to know to launch it."""

    kernel: Any
    blocks: int
    numbers: tuple[int, ...]  # behind the arrays, as bits


@cache
def kernel_of(text: str, name: str, soc: str) -> Any:
    """The tile kernel of a text with open sizes: the largest tiles that fit the chip. Raises NotServed."""
    why = ""
    for size in SIZES:
        filled = text.replace("{T}", str(size)).replace("{C}", str(min(size, 1024)))
        folder = cache_dir() / "generated" / hashlib.sha256(filled.encode()).hexdigest()[:16]
        path = folder / f"{name}.py"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            partial = folder / f"{os.getpid()}.tmp"
            partial.write_text(filled)
            partial.replace(path)
        try:
            made = getattr(_module(path), name)
            made.emit(soc)
            return made
        except TopropeError as error:
            why = error.message.splitlines()[0]
            if error.code != "tile-too-large":
                break
    raise NotServed(f"the tile language: {why}")


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"toprope_generated_{path.parent.name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def launch_of(made: Generated, soc: Any) -> Launch:
    """What launches a generated kernel on a chip for its dimensions. Raises NotServed."""
    from toprope.tile.kernel import loaded  # the compiler of the tile language: not for every program

    kernel = kernel_of(made.text, made.name, soc.name)
    try:
        emitted = kernel.emit(soc.name)
        if emitted.lowered.workspace:
            raise NotServed("it needs a workspace")
        blocks = emitted.lowered.blocks(kernel.in_text(made.dims), soc)
        told = kernel.tiling(made.dims, soc=soc.name, blocks=blocks)
    except TopropeError as error:
        raise NotServed(f"the tile language: {error.message.splitlines()[0]}") from None
    return Launch(loaded(emitted.path)[emitted.lowered.name], blocks, tuple(_bits(v) for v in told.values()))


def _bits(value: Any) -> int:
    import struct

    return int(struct.unpack("<I", struct.pack("<f", value))[0]) if isinstance(value, float) else int(value)

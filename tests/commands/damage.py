"""Files that the product reads, and ways to damage them; `python -m tests.commands.damage --minutes 30` counts what goes wrong.

Each reader is tried through the command line in this process. A damaged file is read, or refused in one message that names it, with
exit code 2; a traceback, an internal error, a hang or a document that is no JSON is a fault.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import os
import random
import signal
import tempfile
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toprope import cli, soc
from toprope.testing.casefile import _toml

ROOT = Path(__file__).parent.parent.parent
KERNEL = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void twice(GM_ADDR x, GM_ADDR z, int32_t n)
{
    GlobalTensor<float> from, to;
    from.SetGlobalBuffer((__gm__ float*)x, 64);
    to.SetGlobalBuffer((__gm__ float*)z, 64);
    TPipe pipe;
    TQue<QuePosition::VECIN, 1> in;
    TQue<QuePosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 1, 256);
    pipe.InitBuffer(out, 1, 256);
    LocalTensor<float> a = in.AllocTensor<float>();
    DataCopy(a, from, 64);
    in.EnQue(a);
    a = in.DeQue<float>();
    LocalTensor<float> b = out.AllocTensor<float>();
    Add(b, a, a, 64);
    out.EnQue(b);
    b = out.DeQue<float>();
    DataCopy(to, b, 64);
    out.FreeTensor(b);
    in.FreeTensor(a);
}
"""
LAUNCH = """[twice]
blocks = 1
soc = "ascend910b1"
seed = 3
standard = "mixed"
arguments = { x = "float[64] uniform(0, 1)", z = "float[64] out", n = 64 }
reference = { z = "x + x" }
"""
CASES = """[operator]
name = "add"
golden = "numpy.add"
blocks = 2
arguments = { length = "x.size" }
outputs = [{ name = "z", dtype = "same:x" }]
attributes = [{ name = "alpha", values = [1.0, 2.0] }]
inputs = [{ name = "x", dtypes = ["float16", "float32"], shape = "*", fill = { kind = "uniform", low = -1.0, high = 1.0 } }, { name = "y", dtypes = "same:x", shape = "broadcast:x" }]
[generate]
count = 6
seed = 1
[[cases]]
name = "row"
inputs = [{ name = "x", dtype = "float16", shape = [1, 64], fill = "normal" }, { name = "y", dtype = "float16", shape = [1] }]
outputs = [{ name = "z", dtype = "float16", shape = [1, 64] }]
limits = { rtol = 0.001 }
attrs = { alpha = 1.0 }
[[cases]]
name = "list"
inputs = [{ name = "x", items = [{ name = "a", dtype = "int32", shape = [2] }] }, { name = "y", absent = true }]
"""
MSOPST = [
    {
        "case_name": "Test_Add",
        "op": "Add",
        "input_desc": [
            {"name": "x", "format": ["ND"], "type": ["float16", "int32"], "shape": [8, 16], "data_distribute": ["uniform"], "value_range": [[0.1, 1.0]]},
            {"name": "y", "format": ["ND"], "type": ["float16", "int32"], "shape": [-1, 16], "typical_shape": [8, 16], "value": [1, 2]},
        ],
        "output_desc": [{"name": "z", "format": ["ND"], "type": ["float16", "int32"], "shape": [8, 16]}],
        "attr": [{"name": "alpha", "type": "float", "value": 1.0}],
        "expect": "success",
    }
]  # fmt: skip
TTK = """testcase_name,op_name,input_shapes,input_dtypes,input_formats,output_shapes,output_dtypes,attributes,input_data_ranges,is_enabled,remark
a1,add,"((8, 16), (16,))","('float16', 'float16')","('ND', 'ND')","((8, 16),)","('float16',)","{'alpha': 1.0}","((-1, 1), (0, 2))",True,note
a2,concat,"(((2, 2), (2, 3)), None)","('int32', 'int32')","('ND', 'ND')","((4, 2),)","('int32',)",{},"(None, 3)",True,
"""
PROTO = "name: Add\noperator:\n  name: Add\n  inputs:\n    - {name: x, dtype: [float16]}\n  attrs:\n    - {name: alpha, dtype: float, default: 1.0}\n"
TASK = {"cases": [{"operator": "Add", "case_id": 1, "input_shape": [[8, 16], [16]], "dtype": ["float16", "float16"], "attrs": {"alpha": 1.0}, "value_range": [[-1, 1], [0, 2]], "note": "n"}]}  # fmt: skip
REPORT = {
    "schema": "toprope.profile/1", "kernel": "k", "soc": "ascend910b1", "blocks": 8, "cycles": 100, "microseconds": 3.5,
    "busy": {"V": 0.5, "MTE2": 0.25}, "waits": {"V": {"MTE2": 0.25}},
    "lines": [{"file": "k.cpp", "line": 5, "pipe": "V", "source": "Add(c, a, b, n);", "microseconds": 1.0}],
    "findings": [{"code": "uninitialised-read", "severity": "error"}],
}  # fmt: skip
SUPPRESS = """[[suppress]]
code = "uninitialised-read"
file = "*.cpp"
line = 5
text = "Add"
reason = "seen"
"""
PROTOTYPE = [
    {
        "op": "AddCustom",
        "language": "cpp",
        "input_desc": [{"name": "x", "param_type": "required", "format": ["ND", "ND"], "type": ["float16", "float"]}],
        "output_desc": [{"name": "z", "param_type": "required", "format": ["ND", "ND"], "type": ["float16", "float"]}],
        "attr": [{"name": "alpha", "param_type": "optional", "type": "float", "default_value": "1.0"}],
    }
]
CONFIG = {
    "num_attention_heads": 8, "num_hidden_layers": 2, "hidden_size": 512, "num_key_value_heads": 4, "head_dim": 64,
    "intermediate_size": 1024, "vocab_size": 1000, "max_position_embeddings": 2048, "tie_word_embeddings": True,
    "num_experts": 4, "moe_intermediate_size": 256, "num_experts_per_tok": 2,
    "vision_config": {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 128, "image_size": 224, "patch_size": 14},
}  # fmt: skip
MODEL = """vocabulary = 51200
positions = 2048
tied_embeddings = true
stack = [{ name = "decoder", layers = 4, hidden = 512, heads = 8, kv_heads = 8, head_size = 64, feed_forward = 2048, matrices = 2, biases = true }]
"""
TRAFFIC = "arrival_s,prompt_tokens,output_tokens\n0.0,100,20\n0.5,120,10\n1.0,90,30\n"
SUMMARY = "Op Name,OP Type,Task Duration(us),Block Dim\ntwice,Twice,12.5,1\ntwice,Twice,13.5,1\n"
CHIP = 'inherits = "ascend910b1"\ntitle = "mine"\n[clock]\nkind = "measured"\nsource = "here"\ncore_ghz = 1.8\n[hbm]\nkind = "measured"\nsource = "here"\nread_tbps = 1.2\n'
LISTING = "name\tkind\nAdd\tfunction\n.SetValue\tmethod\nNoSuch\tfunction\n"
TILE = """from toprope import tile
from toprope.tile import In, Out, f32

@tile.kernel
def double(x: In["N", f32], z: Out["N", f32], *, T=tile.tune(8192, mult=64)):
    for i in tile.tiles(x.shape[0], T, depth=2):
        z[i] = x[i] + x[i]
"""


@dataclass(frozen=True)
class Reader:
    """A file of the product's input: its name, a good text, and the command that reads it (`{file}`, `{folder}`, `{out}`)."""

    name: str
    file: str
    text: str
    command: tuple[str, ...]
    beside: tuple[tuple[str, str], ...] = ()


_CHECK = ("check", "{folder}/k.cpp", "--time-limit", "5")
_TRAIN = ("--cards", "16", "--batch", "16", "--json", "--show", "1")
_SERVE = ("plan-serve", "--requests", "4", "--max-batch-size", "4", "--max-tokens", "512", "--block-size", "16", "--quiet", "--json", "--cost", "roofline")  # fmt: skip
_GIVEN = ("x=float[64]", "z=float[64] out", "n=64")
READERS = {
    r.name: r
    for r in (
        Reader("launch", "l.toml", LAUNCH, (*_CHECK, "--launch", "{file}", "--json"), (("k.cpp", KERNEL),)),
        Reader("run", "k.toml", LAUNCH, ("run", "{folder}/k.cpp", "--time-limit", "5", "--json"), (("k.cpp", KERNEL),)),
        Reader("case file", "c.toml", CASES, ("test", "{file}", "--export", "toml:{out}")),
        Reader("msopst", "m.json", json.dumps(MSOPST), ("test", "{file}", "--export", "ttk:{out}")),
        Reader("ops-test-kit", "t.csv", TTK, ("test", "{file}", "--export", "msopst:{out}")),
        Reader("cann-bench task", "proto.yaml", PROTO, ("test", "{folder}", "--export", "toml:{out}"), (("cases.yaml", json.dumps(TASK)), ("golden.py", ""))),
        Reader("cann-bench cases", "cases.yaml", json.dumps(TASK), ("test", "{folder}", "--export", "toml:{out}"), (("proto.yaml", PROTO), ("golden.py", ""))),
        Reader("compare", "r.json", json.dumps(REPORT), ("compare", "{file}", "{folder}/a.json", "--json"), (("a.json", json.dumps(REPORT)),)),
        Reader("compare text", "r.json", json.dumps(REPORT), ("compare", "{folder}/a.json", "{file}"), (("a.json", json.dumps(REPORT)),)),
        Reader("suppress", "s.toml", SUPPRESS, (*_CHECK, *_GIVEN, "--suppress", "{file}", "--json"), (("k.cpp", KERNEL),)),
        Reader("coverage", "api.tsv", LISTING, ("api", "--coverage", "{file}")),
        Reader("prototype", "p.json", json.dumps(PROTOTYPE), ("new", "{file}", "--out", "{out}")),
        Reader("tile source", "t.py", TILE, ("new", "--from", "{file}:double", "--out", "{out}")),
        Reader("kernel source", "s.cpp", KERNEL, ("check", "{file}", *_GIVEN, "--json")),
        Reader("train config", "config.json", json.dumps(CONFIG), ("plan-train", "{file}", *_TRAIN)),
        Reader("train model", "model.toml", MODEL, ("plan-train", "{file}", *_TRAIN)),
        Reader("train cluster", "c.toml", (ROOT / "toprope/hccl/clusters/atlas-a2.toml").read_text(), ("plan-train", "llama2-7b", "--cluster", "{file}", *_TRAIN)),
        Reader("serve config", "config.json", json.dumps({k: v for k, v in CONFIG.items() if "expert" not in k}), (*_SERVE, "--model", "{file}")),
        Reader("traffic", "t.csv", TRAFFIC, (*_SERVE, "--trace", "{file}")),
        Reader("calibrate", "op_summary_1.csv", SUMMARY, ("calibrate", "{folder}", "{folder}/k.cpp", "--output", "{out}"), (("k.cpp", KERNEL), ("k.toml", LAUNCH))),
        Reader("chip", "toprope/soc/mine.toml", CHIP, ("check", "{folder}/k.cpp", "--soc", "mine", *_GIVEN, "--json"), (("k.cpp", KERNEL),)),
        Reader("chip table", "toprope/soc/mine.toml", CHIP, ("socs", "mine")),
        Reader("raw array", "x.bin", "0" * 256, (*_CHECK, "x=@{file}:float[64]", "z=float[64] out", "n=64", "--json"), (("k.cpp", KERNEL),)),
        Reader("numpy array", "x.npy", "", (*_CHECK, "x=@{file}", "z=float[64] out", "n=64", "--json"), (("k.cpp", KERNEL),)),
    )
}  # fmt: skip
SLOW = {"kernel source", "serve config"}  # each damaged text is compiled, or simulated for long
_VALUES: tuple[Any, ...] = (
    None, True, 0, 1, -1, 2**31, 2**63, 10**30, 1.5, -0.0, float("nan"), float("inf"), 1e308, "", "x", "1", "null", "@nosuch", "../..", "same:nosuch",
    "float[99999999999]", "\u4e2d\u6587", "a\nb", "\x00", [], [[]], [1, "a", None], {}, {"a": {"b": []}}, [[[[[1]]]]],
)  # fmt: skip


def _places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in children:
        yield (*path, key)
        yield from _places(value, (*path, key))


def _at(node: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        node = node[key]
    return node


def _tree(data: Any, draw: random.Random) -> Any:
    """One to three changes of a tree: an entry deleted, doubled, renamed, put into a list, or of another type."""
    data = copy.deepcopy(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        places = list(_places(data))
        if not places:
            return data
        path = draw.choice(places)
        parent, key = _at(data, path[:-1]), path[-1]
        kind = draw.randrange(6)
        if kind == 0:
            del parent[key]
        elif kind == 1:
            parent[key] = [parent[key], parent[key]]
        elif kind == 2 and isinstance(parent, dict):
            parent[draw.choice(("nosuch", "", "a b", "name"))] = parent.pop(key)
        elif kind == 3:
            parent[key] = {"value": parent[key]}
        else:
            parent[key] = copy.deepcopy(draw.choice(_VALUES))
    return data


def _toml_text(data: Any) -> str:
    return "\n".join(f"{json.dumps(str(k))} = {_toml(v)}" for k, v in data.items()) + "\n"


def _bytes(raw: bytes, draw: random.Random) -> bytes:
    """Cut, empty, binary, another encoding, a byte changed, lines doubled or deleted, a cell changed."""
    kind = draw.randrange(9)
    at = draw.randrange(len(raw) + 1)
    if kind == 0:
        return raw[:at]
    if kind == 1:
        return b""
    if kind == 2:
        return bytes(draw.randrange(256) for _ in range(64))
    if kind == 3:
        return raw.decode(errors="replace").encode("utf-16")
    if kind == 4:
        return raw[:at] + bytes([draw.randrange(256)]) + raw[at + 1 :]
    if kind == 5:
        return raw[:at] + b"[" * draw.choice((1, 5, 3000)) + raw[at:]
    if kind == 6:
        lines = raw.split(b"\n")
        lines.insert(draw.randrange(len(lines)), draw.choice(lines))
        return b"\n".join(lines)
    if kind == 7:
        lines = raw.split(b"\n")
        del lines[draw.randrange(len(lines))]
        return b"\n".join(lines)
    lines = raw.split(b"\n")
    row = draw.randrange(len(lines))
    cells = lines[row].split(b",")
    cells[draw.randrange(len(cells))] = str(draw.choice(_VALUES)).encode()
    lines[row] = b",".join(cells)
    return b"\n".join(lines)


def good(reader: Reader) -> bytes:
    """The reader's good file."""
    if reader.file.endswith(".npy"):
        import numpy as np

        with io.BytesIO() as out:
            np.save(out, np.ones(64, np.float32))
            return out.getvalue()
    return reader.text.encode()


def damaged(reader: Reader, draw: random.Random) -> bytes:
    """A damaged copy of the reader's file."""
    raw = good(reader)
    if draw.random() < 0.7:
        with contextlib.suppress(ValueError):
            if reader.file.endswith(".toml"):
                return _toml_text(_tree(tomllib.loads(raw.decode()), draw)).encode(errors="surrogatepass")
            if reader.file.endswith((".json", "cases.yaml")):
                return json.dumps(_tree(json.loads(raw), draw)).encode()
    return _bytes(raw, draw)


def answer(reader: Reader, content: bytes | None, folder: Path, limit_s: int = 30) -> tuple[int, str, str]:
    """Exit code and output of the reader's command on `content` (None: a folder stands in the file's place)."""
    file = folder / reader.file
    file.parent.mkdir(parents=True, exist_ok=True)
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    for name, text in reader.beside:
        (folder / name).write_text(text)
    words = [w.format(file=file, folder=folder, out=folder / "out") for w in reader.command]
    return called(words, folder, limit_s)


def called(words: list[str], folder: Path, limit_s: int = 30) -> tuple[int, str, str]:
    """Exit code (-1: an exception came out, or it took longer than `limit_s`), output and messages of a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    os.environ["XDG_CONFIG_HOME"] = str(folder)
    soc.load.cache_clear()

    def late(number: int, frame: object) -> None:
        raise TimeoutError("hang")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(limit_s)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main(words)
    except BaseException as error:
        return -1, out.getvalue(), f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return code, out.getvalue(), err.getvalue()


def fault(reader: Reader, content: bytes | None, folder: Path) -> str:
    """What is wrong with how the reader takes `content`; "" if nothing."""
    return judged(
        *answer(reader, content, folder),
        "--json" in reader.command,
        "" if content is None or reader.text is KERNEL else Path(reader.file).name,
    )


def judged(code: int, out: str, err: str, as_json: bool, name: str = "") -> str:
    """What is wrong with the answer of a command; "" if nothing."""
    if "internal-error" in err or "Traceback" in err + out or code not in (0, 1, 2, 3):
        return f"exit code {code}: {err}"
    if as_json:
        try:
            json.loads(out)
        except ValueError:
            return f"no JSON: {out[:200]}"
    if code == 2:
        if err.count("\ncure: ") > 1 or not err.strip():
            return f"not one message: {err!r}"
        if name and name not in err and "compile-failed" not in err:
            return f"{name} is not named: {err}"
    return ""


def main() -> None:
    """Damage files for some minutes and print how many inputs were tried and what went wrong, by reader."""
    p = argparse.ArgumentParser(description=main.__doc__)
    p.add_argument("--minutes", type=float, default=1.0)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--only", default="", help="readers whose name contains this")
    p.add_argument("--show", type=int, default=0, help="characters of each kind of fault to print")
    options = p.parse_args()
    os.environ["TOPROPE_LANG"] = "en"
    draw = random.Random(options.seed)
    end = time.monotonic() + 60 * options.minutes
    tried: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    kinds: Counter[tuple[str, str]] = Counter()
    names = [n for n in READERS if options.only in n and (options.only or n not in SLOW)]
    while time.monotonic() < end:
        name = names[sum(tried.values()) % len(names)]
        content = damaged(READERS[name], draw) if draw.random() > 0.01 else None
        with tempfile.TemporaryDirectory() as folder:
            said = fault(READERS[name], content, Path(folder)).replace(folder, "")
        tried[name] += 1
        if said:
            faults[name] += 1
            kind = (
                name,
                said[-options.show :] if options.show and "Traceback" in said else said[: options.show or 200],
            )
            kinds[kind] += 1
    for name in names:
        print(f"{name:<20} {tried[name]:>6} tried {faults[name]:>5} faults")
    print(f"{sum(tried.values())} inputs, {sum(faults.values())} faults")
    for (name, said), count in kinds.most_common(60):
        print(f"--- {name} ({count}x): {said}")


if __name__ == "__main__":
    main()

"""The case file of a generated project: each combination of types with tails, many tiles, left-out inputs and lists of tensors."""

from __future__ import annotations

import json
from typing import Any

from toprope.new.prototype import Attribute, Prototype, Tensor

_HEAD = """\
# Test cases of {op}: toprope test . (the format is in toprope's docs/testing.md)
[operator]
name = "{name}"
golden = "golden.py:{name}"
run = "project"   # shape inference, tiling and kernel of this project
soc = "ascend910b1"
"""
SHAPES = {"tail": [7, 143], "tiles": [3, 7, 1111], "one": [1]}


def example_value(a: Attribute) -> Any:
    """A value for tests: the default, or something of the type."""
    examples: dict[str, Any] = {
        "int": 3, "float": 0.5, "bool": True, "string": "mean", "list_int": [1, 2], "list_float": [0.5, 1.5], "list_bool": [True, False],
        "list_list_int": [[1, 2], [3]],
    }  # fmt: skip
    return examples[a.type] if a.default is None else a.default


def cases_toml(p: Prototype) -> str:
    """The text of cases.toml."""
    blocks = [_HEAD.format(op=p.op, name=p.name)]
    for k in range(p.combinations):
        types = "_".join(dict.fromkeys(t.dtypes[k] for t in (*p.inputs, *p.outputs)))
        for name in ("tail", "tiles") if k else SHAPES:
            blocks.append(_case(p, k, f"{name}_{types}_{k}", SHAPES[name], 1 if name == "one" else 2, left_out=False))
        if k == 0 and any(t.kind == "optional" for t in p.inputs):
            blocks.append(_case(p, k, "left_out", SHAPES["tail"], 3, left_out=True))
    return "\n".join(blocks)


def _case(p: Prototype, k: int, name: str, shape: list[int], items: int, *, left_out: bool) -> str:
    inputs = ",\n  ".join(_input(t, k, shape, items, left_out) for t in p.inputs)
    outputs = ", ".join(f'{{ name = "{o.name}", dtype = "{o.dtypes[k]}" }}' for o in p.outputs)
    kind = "boundary" if shape == [1] or left_out else "general"
    text = f'[[cases]]\nname = "{name}"\nkind = "{kind}"\ninputs = [\n  {inputs},\n]\noutputs = [{outputs}]\n'
    if p.attributes:
        text += "attrs = { " + ", ".join(f"{a.name} = {_toml(example_value(a))}" for a in p.attributes) + " }\n"
    return text


def _input(t: Tensor, k: int, shape: list[int], items: int, left_out: bool) -> str:
    if t.kind == "optional" and left_out:
        return f'{{ name = "{t.name}", absent = true }}'
    one = f'{{ name = "{t.name}", dtype = "{t.dtypes[k]}", shape = {shape} }}'
    if t.kind == "dynamic":
        return f'{{ name = "{t.name}", items = [{", ".join([one] * items)}] }}'
    return one


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value) if isinstance(value, str | bool) else repr(value)

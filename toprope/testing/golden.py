"""Golden references: a NumPy or torch function in float64 or exact integers, and competitors at the same dtype."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from toprope.commandline import nearest
from toprope.testing.cases import Input
from toprope.testing.elements import Array, as_array, dtype_of, is_float, is_integer
from toprope.testing.errors import FormatError

PRECISIONS = ("wide", "same")


@dataclass(frozen=True)
class Golden:
    """A reference implementation: called as function(*inputs, **attrs), gives one array or a list of them.

    precision  "wide": floats as float64, complex as complex128, whole numbers as int64 (uint64 for uint64);
               "same": inputs as they are, which is what a dual benchmark's competitor and most test assets want
    library    "numpy" or "torch": what the function takes
    keywords   given to the function besides the attributes
    """

    function: Callable[..., Any]
    precision: str = "wide"
    library: str = "numpy"
    keywords: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, inputs: Sequence[Input], attrs: Mapping[str, Any] | None = None) -> list[Array]:
        """The outputs as arrays, in the precision of the computation."""
        adapted = [self._each(value) for value in inputs]
        with np.errstate(all="ignore"):
            result = self.function(*adapted, **{**self.keywords, **(attrs or {})})
        return outputs_of(result)

    def _each(self, value: Input) -> Any:
        if value is None:
            return None
        if isinstance(value, list):
            return [self._each(item) for item in value]
        wide = widened(value) if self.precision == "wide" else value
        return to_torch(wide) if self.library == "torch" else wide


def widened(array: Array) -> Array:
    """`array` in float64, complex128, int64 or uint64; bool stays bool."""
    if array.dtype.kind == "b" or array.dtype == np.uint64:
        return array
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    if is_integer(array.dtype):
        return array.astype(np.int64)
    with np.errstate(invalid="ignore"):  # signalling NaN of bfloat16 and float8
        return array.astype(np.float64)


def wrapped(golden: Array, dtype: str) -> Array:
    """Exact integers brought into the range of `dtype` as two's-complement hardware would; floats stay as they are."""
    kind = dtype_of(dtype)
    if kind.kind in "iu" and golden.dtype.kind in "iu":
        return golden.astype(kind)
    if kind.kind == "b" and golden.dtype.kind != "b":
        return golden.astype(bool)
    return golden


def outputs_of(result: Any) -> list[Array]:
    """One array, a tensor, a scalar or a (nested) list of them as a flat list of arrays; None outputs are dropped."""
    if result is None:
        return []
    if isinstance(result, list | tuple):
        return [array for item in result for array in outputs_of(item)]
    return [as_array(result)]


def to_torch(array: Array) -> Any:
    """A torch tensor with the same elements, bfloat16 and float8 included."""
    # torch is heavy and optional: only torch goldens pay for it.
    import torch

    # NumPy may hand out read-only or oddly strided views, which torch refuses or warns about.
    plain = np.array(array, order="C")
    if is_float(plain.dtype) and plain.dtype.name not in ("float16", "float32", "float64"):
        bits = torch.from_numpy(plain.view(np.int16 if plain.dtype.itemsize == 2 else np.uint8))
        return bits.view(getattr(torch, plain.dtype.name))
    if is_integer(plain.dtype) and plain.dtype.kind == "V":
        plain = plain.astype(np.int8)
    return torch.from_numpy(plain)


def golden_from(text: str, folder: Path | None = None) -> Golden:
    """The golden that a case file names: "numpy.add", "torch.nn.functional.gelu" or "file.py:function".

    Raises FormatError when there is no such function.
    """
    path, _, name = text.rpartition(":")
    if path:
        file = (folder or Path()) / path
        if not file.is_file():
            beside = [f.name for f in file.parent.glob("*.py")]
            raise FormatError(
                f"no golden file {path!r}{nearest(file.name, beside)}",
                where=str(folder or Path()),
                cure="golden = ... is relative to the case file: write the file, or numpy.<f>, torch.<f>",
            )
        spec = importlib.util.spec_from_file_location(f"golden_{file.stem}", file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        owner: Any = module
    else:
        library, _, rest = text.partition(".")
        try:
            owner, name = importlib.import_module(library), rest
        except ImportError as error:
            raise FormatError(f"golden {text!r} needs {library}, which is not installed") from error
    for part in name.split("."):
        known = [n for n in dir(owner) if not n.startswith("_")]
        owner = getattr(owner, part, None)
        if owner is None:
            raise FormatError(
                f"golden {text!r} names nothing{nearest(part, known)}", cure="write numpy.<f>, torch.<f> or file.py:<f>"
            )
    torch_like = text.startswith("torch.") or getattr(owner, "library", "") == "torch"
    return Golden(owner, library="torch" if torch_like else "numpy")

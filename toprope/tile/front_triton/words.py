"""What the names of triton.language and libdevice mean, as operations of the form; a name is one method `word_<name>`."""

from __future__ import annotations

import builtins
from typing import Any

from toprope.dtypes import Dtype
from toprope.tile.form.nodes import Value, boolean, i32
from toprope.tile.front_triton.math_words import MathWords
from toprope.tile.front_triton.memory_words import MemoryWords
from toprope.tile.front_triton.module import Words
from toprope.tile.front_triton.random_words import RandomWords
from toprope.tile.front_triton.shape_words import ShapeWords
from toprope.tile.front_triton.values import is_number
from toprope.tile.language import TileError

# Hints for a GPU's or another compiler: the value itself, or nothing.
_SAME = (
    "multiple_of",
    "max_contiguous",
    "max_constancy",
    "constexpr",
    "to_tensor",
    "compile_hint",
    "inline_lambda",
    "tensor",
    "constexpr_function",
    "extern_elementwise_hint",
)
_NOTHING = (
    "static_assert",
    "static_print",
    "assume",
    "debug_barrier",
    "barrier",
    "sync_block_all",
    "sync_block_set",
    "sync_block_wait",
    "syncthreads",
    "gdc_wait",
    "gdc_launch_dependents",
    "thread_barrier",
    "__syncthreads",
    "fence_async_shared",
)
# Other names for the same thing.
_ALSO = {
    "fast_expf": "exp", "fast_logf": "log", "fast_log2f": "log2", "fast_dividef": "fdiv", "div_rn": "fdiv", "div_rz": "fdiv_rz", "sqrt_rn": "sqrt", "nearbyint": "rint", "llrint": "rint",
    "fast_sinf": "sin", "fast_cosf": "cos", "fast_tanf": "tan", "fast_powf": "pow", "fast_exp10f": "exp10", "fabs": "abs", "fmax": "maximum", "fmin": "minimum", "finitef": "isfinited",
    "isfinitef": "isfinited", "finite": "isfinited", "isfinite": "isfinited", "rsqrt_rn": "rsqrt", "fast_tanhf": "tanh", "permute": "trans", "view": "reshape", "float_as_int": "bits_int",
    "int_as_float": "bits_float", "tanh_approx": "tanh", "fast_gelu": "gelu", "log2_approx": "log2", "exp2_approx": "exp2", "range_constexpr": "range", "llround": "round", "fma_rn": "fma",
    "ffs": "ffs", "div": "fdiv", "flip": "flip", "mul_rn": "mul", "add_rn": "add", "sub_rn": "sub", "powf": "pow", "logf": "log", "expf": "exp", "relu": "relu", "uint32_to_uniform_float": "uint_to_uniform_float",
    "get_program_id": "program_id", "get_num_programs": "num_programs", "parallel": "range", "truediv": "fdiv", "mul": "mul",
}  # fmt: skip


class Language(MathWords, MemoryWords, ShapeWords, RandomWords):
    """`tl` of one kernel."""

    def word(self, which: Words, args: list[Any], named: dict[str, Any]) -> Any:
        """A call of a word. Raises TileError for one that has no meaning here."""
        name = which.name
        if name in _SAME:
            return args[0] if args else next(iter(named.values()), None)
        if name in _NOTHING:
            if name == "static_assert" and args and args[0] is False:
                raise TileError(
                    f"static_assert does not hold: {args[1:] or ''}", cure="give constants that the kernel accepts"
                )
            return None
        python = self.python(name, args, named)
        if python is not NotImplemented:
            return python
        method = getattr(self, f"word_{_ALSO.get(name, name)}", None)
        if method is None:
            raise TileError(f"{which.path} has no meaning here", cure="docs/triton.md lists what is read")
        return method(*args, **named)

    def python(self, name: str, args: list[Any], named: dict[str, Any]) -> Any:
        """Functions of Python that kernels use."""
        plain = all(not isinstance(a, Value) for a in args)
        if name in ("min", "max") and not named and len(args) > 1:
            if all(map(is_number, args)):
                return getattr(builtins, name)(args)
            if len(args) == 2 and not (isinstance(args[0], Value) and args[0].shape and is_number(args[1])):
                return self.arith(name, *args)
            return NotImplemented
        if name == "abs" and plain and is_number(args[0]):
            return abs(args[0])
        if name in ("float", "int", "bool") and args:
            if isinstance(args[0], str):
                return float(args[0].strip("'\""))
            if is_number(args[0]):
                return getattr(builtins, name)(args[0])
            return self.word_cast(args[0], {"float": self.f32, "int": i32, "bool": boolean}[name])
        if name == "len":
            return len(args[0])
        if name in ("tuple", "list"):
            return tuple(args[0]) if args else ()
        if name == "zip":
            return [tuple(t) for t in zip(*args, strict=False)]
        if name == "enumerate":
            return list(enumerate(args[0]))
        if name == "reversed":
            return list(reversed(args[0]))
        if name in ("sum", "any", "all") and args and isinstance(args[0], tuple | list):
            return getattr(builtins, name)(args[0])
        if name == "isinstance":
            return isinstance(args[1], Words) and (
                (args[1].name in ("constexpr", "int", "float") and is_number(args[0]))
                or (args[1].name == "tensor" and isinstance(args[0], Value))
            )
        if name in ("print", "device_print"):
            self.b.say("print", str(args[0]) if args else "", tuple(a for a in args[1:] if isinstance(a, Value)))
            return None
        if name == "round" and plain:
            return round(*args)
        if name == "str":
            return str(args[0])
        if name == "ceil" and plain and is_number(args[0]):
            return -int(-args[0] // 1)
        if name in ("sqrt", "log", "log2", "exp", "floor") and len(args) == 1 and is_number(args[0]):
            import math

            return getattr(math, name)(args[0])
        return NotImplemented

    # ---- the launch --------------------------------------------------------------------------------------------------

    def word_program_id(self, axis: int = 0) -> Any:
        return self.b.value("program", self.scalar(i32), axis=int(axis))

    def word_num_programs(self, axis: int = 0) -> Any:
        return self.b.value("programs", self.scalar(i32), axis=int(axis))

    def word_cdiv(self, a: Any, b: Any) -> Any:
        if is_number(a) and is_number(b):
            return -(-int(a) // int(b))
        return self.arith("floordiv", self.arith("sub", self.arith("add", a, b), 1), b)

    def word_next_power_of_2(self, n: Any) -> int:
        return 1 << (int(n) - 1).bit_length()

    def word_device_assert(self, condition: Any, text: Any = "", **_: Any) -> None:
        if isinstance(condition, Value):
            self.b.say("assert", str(text), (condition,))

    def word_device_print(self, text: str, *values: Any, **_: Any) -> None:
        self.b.say("print", text, tuple(v for v in values if isinstance(v, Value)))

    # ---- names of libraries around Triton ----------------------------------------------------------------------------

    def word_program_id_of(self, axis: int) -> Any:
        return self.word_program_id(axis)

    def word_get_dtype_min(self, kind: Any) -> Any:
        return limits(kind)[0]

    def word_get_dtype_max(self, kind: Any) -> Any:
        return limits(kind)[1]

    def word_is_cuda(self, *_: Any) -> bool:
        return False

    def word_scope(self, *_: Any, **__: Any) -> None:
        return None

    def word_range(self, *args: Any) -> Any:
        return list(range(*map(int, args)))

    def word_type(self, x: Any) -> Any:
        return getattr(x, "dtype", None)

    def word_getattr(self, x: Any, name: str, *default: Any) -> Any:
        return getattr(x, name, *default)


def limits(kind: Any) -> tuple[Any, Any]:
    """Least and largest number of an element type."""
    import numpy as np

    kind = kind[1] if isinstance(kind, tuple) else kind
    assert isinstance(kind, Dtype) and kind.numpy is not None
    if kind == boolean:
        return False, True
    if kind.numpy.kind in "iu":
        info = np.iinfo(kind.numpy)
        return int(info.min), int(info.max)
    import ml_dtypes

    found = ml_dtypes.finfo(kind.numpy)  # type: ignore[no-untyped-call]
    return float(found.min), float(found.max)


WORDS = (
    {n.removeprefix("word_") for n in dir(Language) if n.startswith("word_")}
    | set(_ALSO)
    | {*_SAME, *_NOTHING, "to", "static_range", "range"}
)

"""A file of Triton functions: its names, those it imports from files beside it, and the words of triton.language; read without triton."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from toprope.dtypes import Dtype, dtype
from toprope.tile.language import TileError

TYPES: dict[str, Dtype] = {
    "float16": dtype("float16"), "bfloat16": dtype("bfloat16"), "float32": dtype("float32"), "int8": dtype("int8"), "int16": dtype("int16"),
    "int32": dtype("int32"), "int64": dtype("int64"), "uint8": dtype("uint8"), "uint16": dtype("uint16"), "uint32": dtype("uint32"),
    "uint64": dtype("uint64"), "int1": dtype("bool"), "float64": dtype("float64"),
}  # fmt: skip
_PLAIN = (int, float, bool, str)


@dataclass(frozen=True)
class Words:
    """A path into triton or triton.language, or into a module that cannot be read: its last part says what is meant."""

    path: str

    @property
    def name(self) -> str:
        """The last part."""
        return self.path.rpartition(".")[2]


@dataclass(frozen=True)
class Helper:
    """A function that is expanded where it is called."""

    node: ast.FunctionDef
    module: Module


class Unread:
    """A module-level name whose value needs running the module."""

    def __init__(self, node: ast.expr) -> None:
        self.node = node


class Module:
    """The names of one file."""

    def __init__(self, tree: ast.Module, file: str, given: dict[str, Any] | None = None) -> None:
        self.tree, self.file, self.given = tree, file, given or {}
        self.functions = {n.name: n for n in definitions(tree)}
        self._statements = {name: n for n in outside(tree) for name in _bound(n)}
        self._found: dict[str, Any] = {}

    def has(self, name: str) -> bool:
        """Whether the file says anything about a name."""
        return name in self.functions or name in self._statements or name in self.given

    def value(self, name: str) -> Any:
        """What a name means: a Helper, a constant, Words, a Dtype, or Unread."""
        if name not in self._found:
            self._found[name] = Words(name)  # while it is looked for
            self._found[name] = self._value(name)
        return self._found[name]

    def _value(self, name: str) -> Any:
        given = self.given.get(name)
        plain = getattr(given, "value", given) if type(given).__name__ == "constexpr" else given
        if isinstance(plain, _PLAIN):
            return plain
        if name in self.functions:
            return Helper(self.functions[name], self)
        jitted: Any = given
        while hasattr(jitted, "fn"):
            jitted = jitted.fn
        if inspect.isfunction(jitted):
            return _helper_of(jitted)
        node = self._statements.get(name)
        if isinstance(node, ast.Import):
            return Words(
                next(
                    a.name if a.asname else a.name.split(".")[0]
                    for a in node.names
                    if (a.asname or a.name.split(".")[0]) == name
                )
            )
        if isinstance(node, ast.ImportFrom):
            return self._imported(node, name)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            return self._assigned(node.value)
        return Words(name)

    def _imported(self, node: ast.ImportFrom, name: str) -> Any:
        real = next(a.name for a in node.names if (a.asname or a.name) == name)
        path = node.module or ""
        if not node.level and path.split(".")[0] in ("triton", "torch", "math"):
            return TYPES.get(real) or Words(f"{path}.{real}")
        file = self._file_of(node.level, path)
        inner = self._file_of(node.level, f"{path}.{real}" if path else real)
        if inner is not None and inner.name != "__init__.py":
            return module_of(inner)
        if file is not None:
            other = module_of(file)
            if other.has(real):
                return other.value(real)
        return TYPES.get(real) or Words(f"{path}.{real}")

    def _file_of(self, level: int, path: str) -> Path | None:
        """The file of a module of the same package, or of one whose folder lies above this file."""
        here = Path(self.file)
        tops = (
            [here.parents[level - 1]] if 0 < level <= len(here.parents) else list(here.parents)[:8] if not level else []
        )
        parts = path.split(".") if path else []
        for top in tops:
            for root in (top, top / "src"):
                place = root.joinpath(*parts)
                for found in (place.with_suffix(".py") if parts else place / "__init__.py", place / "__init__.py"):
                    if found.is_file():
                        return found
        return None

    def _assigned(self, value: ast.expr) -> Any:
        if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("constexpr") and value.args:
            value = value.args[0]
        if (
            isinstance(value, ast.Call)
            and value.args
            and isinstance(value.args[-1], ast.Name)
            and value.args[-1].id in self.functions
        ):
            return Helper(self.functions[value.args[-1].id], self)  # f = triton.jit(f)
        if isinstance(value, ast.Name) and self.has(value.id):
            return self.value(value.id)
        if isinstance(value, ast.Attribute):
            return self.attribute(value)
        try:
            return _folded(value, self)
        except (ValueError, TypeError, KeyError, AttributeError, ZeroDivisionError):
            return Unread(value)

    def attribute(self, node: ast.Attribute) -> Any:
        """a.b.c as a type, a member of a file, or words."""
        if isinstance(node.value, ast.Call) and (found := limit_of(node)) is not None:
            return found
        owner = (
            self.attribute(node.value)
            if isinstance(node.value, ast.Attribute)
            else self.value(node.value.id)
            if isinstance(node.value, ast.Name)
            else Words(ast.unparse(node.value))
        )
        return member(owner, node.attr)

    # ---- what a call of the function needs -------------------------------------------------------------------------------

    def function(self, name: str = "") -> ast.FunctionDef:
        """A function by name, or the only one that is jitted and that no other calls. Raises TileError."""
        jitted = [f for f in self.functions.values() if any("jit" in ast.unparse(d) for d in f.decorator_list)] or list(
            self.functions.values()
        )
        called = {n.id for f in jitted for n in ast.walk(f) if isinstance(n, ast.Name)}
        chosen = (
            [self.functions[name]]
            if name in self.functions
            else []
            if name
            else [f for f in jitted if f.name not in called] or jitted
        )
        if len(chosen) != 1:
            raise TileError(
                f"{len(chosen)} functions in the Triton source{f' are called {name}' if name else ''}",
                cure=f'name one of {", ".join(self.functions) or "none"}: tile.triton(source, "kernel")',
            )
        return chosen[0]


def member(owner: Any, name: str) -> Any:
    """owner.name for modules and words."""
    if isinstance(owner, Module):
        return owner.value(name)
    if isinstance(owner, Words):
        if owner.path in ("math", "numpy", "np") and hasattr(math, name) and isinstance(getattr(math, name), float):
            return getattr(math, name)
        return TYPES.get(name) or Words(f"{owner.path}.{name}")
    return getattr(owner, name)


def limit_of(node: ast.Attribute) -> Any:
    """torch.finfo(torch.float16).max and its like."""
    import ml_dtypes
    import numpy as np

    call = node.value
    assert isinstance(call, ast.Call)
    which = ast.unparse(call.func).rpartition(".")[2]
    kind = TYPES.get(ast.unparse(call.args[0]).rpartition(".")[2]) if call.args else None
    if which not in ("finfo", "iinfo") or kind is None or kind.numpy is None:
        return None
    info: Any = np.iinfo(kind.numpy) if which == "iinfo" else ml_dtypes.finfo(kind.numpy)  # type: ignore[no-untyped-call]
    found = getattr(info, node.attr, None)
    return None if found is None else int(found) if which == "iinfo" else float(found)


def _folded(node: ast.expr, module: Module) -> Any:
    """A constant expression over the module's constants."""
    match node:
        case ast.Constant(value=v):
            return v
        case ast.Name(id=name):
            v = module.value(name)
            if not isinstance(v, _PLAIN):
                raise ValueError(name)
            return v
        case ast.Attribute():
            v = module.attribute(node)
            if isinstance(v, Words):
                raise ValueError(v.path)
            return v
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            return tuple(_folded(e, module) for e in elts)
        case ast.UnaryOp(op=op, operand=x):
            inner = _folded(x, module)
            return -inner if isinstance(op, ast.USub) else not inner if isinstance(op, ast.Not) else inner
        case ast.BinOp(op=op, left=a, right=b) if type(op) in _FOLDS:
            return _FOLDS[type(op)](_folded(a, module), _folded(b, module))
        case ast.Call(func=ast.Name(id="float"), args=[x]):
            return float(_folded(x, module))
        case ast.Call(
            func=ast.Attribute(attr=("log" | "sqrt" | "exp" | "log2") as f, value=ast.Name(id="math")), args=[x]
        ):
            return getattr(math, f)(_folded(x, module))
    raise ValueError(ast.dump(node)[:40])


_FOLDS: dict[type, Any] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b, ast.Div: lambda a, b: a / b, ast.Pow: lambda a, b: a**b,
    ast.FloorDiv: lambda a, b: a // b, ast.Mod: lambda a, b: a % b, ast.LShift: lambda a, b: a << b, ast.BitOr: lambda a, b: a | b,
}  # fmt: skip


@cache
def module_of(file: Path) -> Module:
    """The names of a file; a file that is no Python has none."""
    try:
        return Module(ast.parse(file.read_text(errors="replace")), str(file))
    except (SyntaxError, ValueError, OSError):
        return Module(ast.Module([], []), str(file))


def _helper_of(function: Any) -> Any:
    file = inspect.getsourcefile(function)
    if file is None:
        return Words(function.__name__)
    module = Module(module_of(Path(file)).tree, file, dict(function.__globals__))
    return (
        Helper(module.functions[function.__name__], module)
        if function.__name__ in module.functions
        else Words(function.__name__)
    )


def definitions(tree: ast.AST) -> list[ast.FunctionDef]:
    """The functions of a module, those under if, try and with too."""
    found = [n for n in ast.iter_child_nodes(tree) if isinstance(n, ast.FunctionDef)]
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If | ast.Try | ast.ExceptHandler | ast.With):
            found += definitions(node)
    return found


def outside(tree: ast.AST) -> Iterator[ast.stmt]:
    """Statements outside functions and classes; of if and try the first that counts comes last."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.If):
            for part in (*node.orelse, *node.body):
                yield from outside(ast.Module([part], []))
        elif isinstance(node, ast.Try):
            for part in (*(s for h in node.handlers for s in h.body), *node.orelse, *node.body):
                yield from outside(ast.Module([part], []))
        elif isinstance(node, ast.stmt):
            yield node


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [a.asname or (a.name if isinstance(node, ast.ImportFrom) else a.name.split(".")[0]) for a in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [t.id for t in targets if isinstance(t, ast.Name)]

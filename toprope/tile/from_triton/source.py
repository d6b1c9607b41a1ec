"""A Triton function with what it needs around it: helpers, constants, names of triton.language, autotune and heuristics; read without triton."""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from toprope.tile.from_triton.expressions import Helper
from toprope.tile.from_triton.types import TYPES
from toprope.tile.language import TileError

Names = dict[str, Callable[[Any], Any]]  # name -> what it is for the words of one evaluation
_LANGUAGE = ("triton.language", "triton.language.extra", "triton.language.math", "tl.math")


class TritonModule:
    """A module's names as far as its Triton functions use them."""

    def __init__(self, file: Path) -> None:
        self.file, self.tree = str(file), _parsed(_read_text(file), str(file))
        self._globals: dict[str, Any] = {}
        self.functions = {n.name: _bare(_Conversions().visit(n)) for n in _definitions(self.tree)}
        self.names = self._names()

    def value_of(self, name: str) -> Callable[[Any], Any] | None:
        """What one of its names is for the words of an evaluation."""
        if name in self.functions:
            return lambda words: Helper(self.functions[name], self.scope(words))
        return self.names.get(name)

    # ---- names -------------------------------------------------------------------------------------------------------

    def _names(self) -> Names:
        """What the module's names are: of triton.language, constants, and what its globals hold."""
        found: Names = {}
        for key, value in self._globals.items():
            plain = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
            if isinstance(plain, int | float | str | bool):
                found[key] = _always(plain)
            elif inspect.isfunction(getattr(value, "fn", None)) and key not in self.functions:
                helper = TritonSource(value.fn)  # a jitted function of another module
                found[key] = helper.as_helper
        for node in _outside(self.tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                found |= self._beside(node)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                found |= _imported(node)
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name):
                    self._assigned(target.id, node.value, found)
        found.setdefault("tl", lambda words: words)
        return found

    def _beside(self, node: ast.ImportFrom) -> Names:
        """Names out of a file of the same package: constants, other names of tl functions, and helpers."""
        folder = Path(self.file).parents[node.level - 1] if len(Path(self.file).parents) >= node.level else Path()
        file = folder / f"{(node.module or '').replace('.', '/')}.py"
        if not file.is_file():
            return {}
        other = TritonModule(file)
        return {a.asname or a.name: other.value_of(a.name) for a in node.names if other.value_of(a.name) is not None}  # type: ignore[misc]

    def _assigned(self, name: str, value: ast.expr, found: Names) -> None:
        """A module's constant, tl.constexpr or not, or another name for a function of tl."""
        if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("constexpr") and value.args:
            value = value.args[0]
        try:
            constant = ast.literal_eval(value)
        except ValueError:
            if isinstance(value, ast.Attribute):
                parts = ast.unparse(value).split(".")
                if parts[0] in found or parts[0] == "tl":
                    owner = found.get(parts[0], lambda words: words)
                    found[name] = lambda words: _reached(owner(words), parts[1:])
            return
        found[name] = _always(constant)

    def constants(self) -> dict[str, Any]:
        """Numbers and texts that the module's names stand for."""
        found = {}
        for name, value in self.names.items():
            try:
                constant = value(None)
            except (AttributeError, TileError):
                continue
            if isinstance(constant, int | float | str | bool):
                found[name] = constant
        return found

    def scope(self, words: Any) -> dict[str, Any]:
        """The function's globals for a reader: helpers as syntax trees."""
        scope = {name: value(words) for name, value in self.names.items()}
        scope |= {n: Helper(f, scope) for n, f in self.functions.items()}
        return scope


class TritonSource(TritonModule):
    """One function of a Triton module."""

    def __init__(self, given: Any, name: str = "") -> None:
        text, self.file, first, self._globals, name = _text_of(given, name)
        self.given = self._globals
        self.tree = _parsed(textwrap.dedent(text), self.file)
        ast.increment_lineno(self.tree, first)
        functions = {n.name: n for n in _definitions(self.tree)}
        jitted = [f for f in functions.values() if any("jit" in ast.unparse(d) for d in f.decorator_list)]
        chosen = (
            [functions[name]] if name in functions else [] if name else jitted if jitted else list(functions.values())
        )
        called = {n.id for f in chosen for n in ast.walk(f) if isinstance(n, ast.Name)}
        chosen = chosen if name else [f for f in chosen if f.name not in called] or chosen
        if len(chosen) != 1:
            raise TileError(
                f"{len(chosen)} functions in the Triton source{f' are called {name}' if name else ''}",
                cure=f'name one of {", ".join(functions) or "none"}: tile.triton(source, "kernel")',
            )
        self.node = chosen[0]
        self.configs, self.key, self.heuristics = self._tuning(
            [*self.node.decorator_list, *self._applied(self.node.name)]
        )
        self.functions = {n: _bare(_Conversions().visit(f)) for n, f in functions.items()}
        self.node = self.functions[self.node.name]
        arguments = self.node.args
        if arguments.vararg or arguments.kwarg:
            raise self._error(
                self.node, "a kernel with *args or **meta", "name each argument, constants as tl.constexpr"
            )
        every = [*arguments.args, *arguments.kwonlyargs]
        self.parameters = [a.arg for a in every]
        self.constexprs = {a.arg for a in every if a.annotation and "constexpr" in ast.unparse(a.annotation)}
        pairs = list(
            zip(arguments.args[len(arguments.args) - len(arguments.defaults) :], arguments.defaults, strict=True)
        )
        pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
        self.names = self._names()
        self.defaults = {a.arg: self._constant(d) for a, d in pairs}
        for f in self.functions.values():  # annotations mean nothing from here on
            for a in [*f.args.args, *f.args.kwonlyargs]:
                a.annotation = None
            f.args.defaults = [ast.copy_location(ast.Constant(self._constant(d)), d) for d in f.args.defaults]

    def _error(self, node: ast.AST, message: str, cure: str) -> TileError:
        return TileError(f"{self.file}:{getattr(node, 'lineno', 0)}: {message}", cure=cure)

    def _constant(self, node: ast.expr) -> Any:
        try:
            return ast.literal_eval(node)
        except ValueError:
            return self.constants().get(ast.unparse(node))

    def needed(self) -> list[ast.stmt]:
        """The function and the helpers that it reaches."""
        found, pending = dict[str, ast.stmt](), [self.node.name]
        while pending:
            name = pending.pop()
            if name in self.functions and name not in found:
                found[name] = self.functions[name]
                pending += [n.id for n in ast.walk(found[name]) if isinstance(n, ast.Name)]
        return list(found.values())

    def compiled(self) -> tuple[Callable[..., None], dict[str, Any], Callable[[dict[str, Any], Any], None]]:
        """The function as Python, its globals, and what fills them for the words of one program."""
        scope: dict[str, Any] = {**self._globals, **self.constants()}
        tree = ast.Module([_Casts().visit(copy.deepcopy(f)) for f in self.needed()], [])
        exec(compile(ast.fix_missing_locations(tree), self.file, "exec"), scope)

        def fill(scope: dict[str, Any], words: Any) -> None:
            for name, value in self.names.items():
                found = value(words)
                if isinstance(found, Helper):
                    found = _executed(found, self.file, words)
                if found is not None or name not in scope:
                    scope[name] = found
            scope[_CAST] = words.to
            scope["min"] = lambda *a: _folded(words.minimum, builtins.min, a)
            scope["max"] = lambda *a: _folded(words.maximum, builtins.max, a)
            scope["range"] = lambda *a: words.range(*a) if any(not isinstance(x, int) for x in a) else range(*a)
            for name, value in list(scope.items()):
                if inspect.isfunction(getattr(value, "fn", None)):
                    scope[name] = value.fn

        return scope[self.node.name], scope, fill

    def as_helper(self, words: Any) -> Helper:
        """The function as one that others call."""
        return Helper(self.node, self.scope(words))

    def _applied(self, name: str) -> list[ast.expr]:
        """Decorators that are called: f = triton.heuristics(...)(f)."""
        found: list[ast.expr] = []
        for n in _outside(self.tree):
            call = n.value if isinstance(n, ast.Assign) else None
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Call) and ast.unparse(n.targets[0]) == name:  # type: ignore[attr-defined]
                found.append(call.func)
        return found

    # ---- autotune and heuristics -------------------------------------------------------------------------------------

    def _tuning(
        self, decorators: list[ast.expr]
    ) -> tuple[list[dict[str, Any]], list[str], dict[str, Callable[[Any], Any]]]:
        """Configurations, the names that choose among them, and values that follow from the arguments."""
        configs: list[dict[str, Any]] = []
        key: list[str] = []
        heuristics: dict[str, Callable[[Any], Any]] = {}
        for d in decorators:
            if not isinstance(d, ast.Call) or ast.unparse(d.func).rpartition(".")[2] not in ("autotune", "heuristics"):
                continue
            scope = {**self._plain_functions(), **self._globals, "triton": _module_for_decorators()}
            try:
                arguments = [eval(compile(ast.Expression(a), self.file, "eval"), scope) for a in d.args]
                named = {k.arg: eval(compile(ast.Expression(k.value), self.file, "eval"), scope) for k in d.keywords}
            except Exception as e:  # whatever the module's own functions raise away from their GPU
                raise self._error(
                    d,
                    f"the decorator cannot be evaluated: {e}",
                    "write the configurations out, or pass the sizes at the launch",
                ) from None
            if ast.unparse(d.func).endswith("heuristics"):
                heuristics |= named.get("values", arguments[0] if arguments else {})
            else:
                found = named.get("configs", arguments[0] if arguments else [])
                configs = [dict(getattr(c, "kwargs", c)) for c in found]
                key = list(named.get("key", arguments[1] if len(arguments) > 1 else []))
        return configs, key, heuristics

    def _plain_functions(self) -> dict[str, Any]:
        """Functions of the module that are no kernels, as Python: they may make configurations."""
        scope: dict[str, Any] = {"triton": _module_for_decorators()}
        plain = [f for f in _definitions(self.tree) if not f.decorator_list]
        for f in plain:
            exec(compile(ast.Module([f], []), self.file, "exec"), scope)
        return scope


def _parsed(text: str, file: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise TileError(
            f"{file}:{getattr(e, 'lineno', None) or 1}: this is no Python: {getattr(e, 'msg', e)}",
            cure="give a Python file or its text",
        ) from None


def _read_text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as e:
        raise TileError(f"{file} cannot be read: {e}", cure="give a Python file in UTF-8") from None


def _text_of(given: Any, name: str) -> tuple[str, str, int, dict[str, Any], str]:
    """Source text, file, lines before it, globals, and the function's name."""
    if isinstance(given, Path):
        return _read_text(given), str(given), 0, {}, name
    if isinstance(given, str):
        return given, "<triton>", 0, {}, name
    function = given
    while hasattr(function, "fn"):  # triton.jit, autotune and heuristics keep the function there
        function = function.fn
    file = inspect.getsourcefile(function) or "?"
    name = name or function.__name__
    try:
        whole = Path(file).read_text()
        if any(n.name == name for n in _definitions(ast.parse(whole))):
            return whole, file, 0, dict(function.__globals__), name
    except (OSError, SyntaxError):
        pass
    lines, first = inspect.getsourcelines(function)
    return "".join(lines), file, first - 1, dict(function.__globals__), name


def _outside(tree: ast.AST) -> Iterator[ast.stmt]:
    """Statements of a module outside its functions and classes, those under if and try too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, ast.If | ast.Try | ast.ExceptHandler | ast.With):
            yield from _outside(node)


def _definitions(tree: ast.AST) -> list[ast.FunctionDef]:
    """The functions of a module, those under if and try too."""
    found = [n for n in ast.iter_child_nodes(tree) if isinstance(n, ast.FunctionDef)]
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If | ast.Try | ast.ExceptHandler | ast.With):
            found += _definitions(node)
    return found


_CAST = "_converted_to"


class _Casts(ast.NodeTransformer):
    """x.to(type) as a call, because Python's own numbers have no such method."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "to" and len(node.args) == 1:
            name = ast.copy_location(ast.Name(_CAST, ast.Load()), node.func)
            return ast.copy_location(ast.Call(name, [node.func.value, *node.args], node.keywords), node)
        return node


class _Conversions(ast.NodeTransformer):
    """tl.float32(x) is tl.cast(x, tl.float32), and p.dtype.element_ty is p.dtype."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        return node.value if node.attr == "element_ty" else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        word = node.func
        if isinstance(word, ast.Attribute) and word.attr in TYPES and len(node.args) == 1 and not node.keywords:
            cast = ast.copy_location(ast.Attribute(word.value, "cast", ast.Load()), word)
            return ast.copy_location(ast.Call(cast, [node.args[0], word], []), node)
        return node


def _bare(f: ast.FunctionDef) -> ast.FunctionDef:
    f.decorator_list = []
    f.returns = None
    return f


def _imported(node: ast.Import | ast.ImportFrom) -> Names:
    """Names that an import of triton gives."""
    found: Names = {}
    for a in node.names:
        if isinstance(node, ast.Import):
            if a.name == "triton" and not a.asname:
                found["triton"] = _triton
            elif a.name.startswith("triton.") and a.asname:
                found[a.asname] = lambda words: words
            elif a.name.startswith("triton."):
                found["triton"] = _triton
            elif a.name == "math":
                found[a.asname or "math"] = lambda _: __import__("math")
        elif node.module and node.module.split(".")[0] == "triton" and not node.level:
            inner = node.module.startswith("triton.language")
            if not inner and a.name != "language":
                found[a.asname or a.name] = partial(_of_triton, name=a.name)
            elif a.name in ("libdevice", "math", "language", "standard", "extra", "cuda"):
                found[a.asname or a.name] = lambda words: words
            else:
                found[a.asname or a.name] = partial(_reached, names=[a.name])
    return found


def _always(value: Any) -> Callable[[Any], Any]:
    return lambda _: value


def _of_triton(words: Any, name: str) -> Any:
    return getattr(_triton(words), name, None)


def _triton(words: Any) -> Any:
    return SimpleNamespace(language=words, cdiv=words.cdiv, next_power_of_2=next_power_of_2)


def _executed(helper: Helper, file: str, words: Any) -> Any:
    """A helper out of another file as Python, in its own globals."""
    scope: dict[str, Any] = {}
    for name, value in helper.names.items():
        scope[name] = value if not isinstance(value, Helper) else None
    scope[_CAST] = words.to
    functions = [v.node for v in helper.names.values() if isinstance(v, Helper) and v.names is helper.names]
    for f in functions:
        tree = ast.Module([_Casts().visit(copy.deepcopy(_without_annotations(f)))], [])
        exec(compile(ast.fix_missing_locations(tree), file, "exec"), scope)
    return scope.get(helper.node.name)


def _without_annotations(f: ast.FunctionDef) -> ast.FunctionDef:
    for a in [*f.args.args, *f.args.kwonlyargs, f.args.vararg, f.args.kwarg]:
        if a is not None:
            a.annotation = None
    f.args.defaults = [
        d if isinstance(d, ast.Constant) else ast.copy_location(ast.Constant(None), d) for d in f.args.defaults
    ]
    return f


def _reached(owner: Any, names: list[str]) -> Any:
    for name in names if owner is not None else []:
        try:
            owner = getattr(owner, name)
        except TileError as e:
            refusal = e

            def refuse(*_: Any, refusal: TileError = refusal, **__: Any) -> Any:
                raise TileError(refusal.message, cure=refusal.cure)

            return refuse
    return owner


def _folded(word: Callable[[Any, Any], Any], plain: Callable[..., Any], values: tuple[Any, ...]) -> Any:
    if all(isinstance(v, int | float) for v in values) or len(values) == 1:
        return plain(*values)
    found = values[0]
    for v in values[1:]:
        found = word(found, v)
    return found


def next_power_of_2(n: int) -> int:
    """The least power of two that is at least n."""
    return 1 << max(0, int(n) - 1).bit_length()


class Config:
    """triton.Config: sizes of one variant; what steers a GPU is kept and not used."""

    def __init__(self, kwargs: dict[str, Any], **options: Any) -> None:
        self.kwargs, self.options = kwargs, options


def _module_for_decorators() -> Any:
    target = SimpleNamespace(backend="npu", arch=0)
    active = SimpleNamespace(get_current_target=lambda: target)
    return SimpleNamespace(
        Config=Config, cdiv=lambda a, b: -(-a // b), next_power_of_2=next_power_of_2,
        runtime=SimpleNamespace(driver=SimpleNamespace(active=active)),
    )  # fmt: skip

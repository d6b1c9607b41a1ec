"""Test assets of operator repositories: `__spec__` classes and the older `__golden__` / `__input__` tables.

Files are indexed by parsing alone; a file is executed the first time one of its functions is called.
Contract: ops-test-kit, ttk/test_spec/README.md.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from toprope.testing.errors import FormatError

_TABLES = ("__golden__", "__spec__", "__input__")


@dataclass(frozen=True)
class Asset:
    """Where to find the reference of one operator.

    mode    "kernel" (NumPy arrays), "aclnn" or "e2e" (torch tensors)
    entry   function name for __golden__, class name for __spec__
    inputs  function name of an `__input__` table, in `inputs_file`
    """

    operator: str
    mode: str
    file: Path
    entry: str
    is_spec: bool
    inputs: str = ""
    inputs_file: Path | None = None

    def golden(self) -> Callable[..., Any]:
        """The reference function. Executes the file; raises FormatError when it has none."""
        owner = _member(self.file, self.entry)
        return _callable(getattr(owner, "golden", None) if self.is_spec else owner, self)

    def third_party(self) -> Callable[..., Any] | None:
        """The competitor's function for a dual benchmark, if the asset declares one."""
        found = getattr(_member(self.file, self.entry), "third_party", None) if self.is_spec else None
        if isinstance(found, Mapping):
            found = found.get("torch", next(iter(found.values()), None))
        return None if found is None else _callable(found, self)

    def preparation(self) -> Callable[..., Any] | None:
        """The function that turns generated inputs into acceptable ones, if there is one."""
        if self.is_spec:
            found = inspect.getattr_static(_member(self.file, self.entry), "customize_inputs", None)
            return None if found is None else _callable(getattr(found, "__func__", found), self)
        if self.inputs and self.inputs_file:
            return _callable(_member(self.inputs_file, self.inputs), self)
        return None

    def tolerance(self) -> Mapping[str, Mapping[str, Any]]:
        """dtype -> {"standard": name, limits...} as declared by a spec; empty otherwise."""
        found = getattr(_member(self.file, self.entry), "tolerance", {}) if self.is_spec else {}
        return found if isinstance(found, Mapping) else {}


def index(folders: Iterable[Path]) -> dict[str, Asset]:
    """Every asset below the folders, by operator or API name. Nothing is executed."""
    assets: dict[str, Asset] = {}
    preparations: dict[str, tuple[str, Path]] = {}
    for file in sorted({f for folder in folders for f in folder.rglob("*.py")}):
        for table, entries in tables(file).items():
            for mode, operator, entry in entries:
                if table == "__input__":
                    preparations[operator] = (entry, file)
                else:
                    assets[operator] = Asset(operator, mode, file, entry, table == "__spec__")
    for operator, (entry, file) in preparations.items():
        known = assets.get(operator)
        if known is not None:
            assets[operator] = Asset(operator, known.mode, known.file, known.entry, known.is_spec, entry, file)
    return assets


def tables(file: Path) -> dict[str, list[tuple[str, str, str]]]:
    """The asset tables of a file as (mode, operator, entry) rows, read from the syntax tree."""
    text = file.read_text(errors="replace")
    if not any(name in text for name in _TABLES):
        return {}
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise FormatError(f"not Python: {error.msg}", where=f"{file}:{error.lineno}") from error
    found: dict[str, list[tuple[str, str, str]]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id in _TABLES:
                    found[target.id] = _rows(target.id, node.value)
    return found


def _rows(table: str, node: ast.Dict) -> list[tuple[str, str, str]]:
    if table == "__spec__":
        pairs = [(_word(k), _word(v)) for k, v in zip(node.keys, node.values, strict=True)]
        return [(_mode_of(name), name, entry) for name, entry in pairs if name and entry]
    rows = []
    for mode_node, inner in zip(node.keys, node.values, strict=True):
        if isinstance(inner, ast.Dict):
            for key, value in zip(inner.keys, inner.values, strict=True):
                if _word(key) and _word(value):
                    rows.append((_word(mode_node), _word(key), _word(value)))
    return rows


def _mode_of(name: str) -> str:
    return "aclnn" if name.startswith("aclnn") else "e2e" if "." in name else "kernel"


def _word(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return node.id if isinstance(node, ast.Name) else ""


_STAND_INS = str(Path(__file__).parents[1] / "stand_ins")


@cache
def load(file: Path) -> ModuleType:
    """Execute a Python file as a module of its own; siblings in its folder can be imported by it."""
    name = f"toprope_asset_{abs(hash(file))}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    folder = str(file.parent)
    sys.path.insert(0, folder)
    sys.path.append(_STAND_INS)  # last: a kit that is installed goes before
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise FormatError(f"{type(error).__name__}: {error}", where=str(file)) from error
    finally:
        sys.path.remove(folder)
        sys.path.remove(_STAND_INS)
    return module


def _member(file: Path, name: str) -> Any:
    found = getattr(load(file), name, None)
    if found is None:
        raise FormatError(f"names {name!r}, which it does not define", where=str(file))
    return found


def _callable(found: Any, asset: Asset) -> Callable[..., Any]:
    """A golden given as text ("numpy.abs"), as a function or as a class to instantiate, as one function."""
    if isinstance(found, str):
        library, _, rest = found.partition(".")
        owner: Any = __import__(library)
        for part in rest.split("."):
            owner = getattr(owner, part)
        return _without_unknown_keywords(owner)
    if inspect.isclass(found):
        return _of_class(found)
    if not callable(found):
        raise FormatError(f"{asset.operator}: no usable golden", where=str(asset.file))
    return _without_unknown_keywords(found)


def _without_unknown_keywords(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, called with only those keywords that it declares (all of them when it takes **kwargs)."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return lambda *args, **kwargs: function(*args)
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return function
    allowed = {n for n, p in parameters.items() if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}

    def call(*args: Any, **kwargs: Any) -> Any:
        positional = list(parameters)[: len(args)]
        return function(*args, **{k: v for k, v in kwargs.items() if k in allowed and k not in positional})

    return call


def _of_class(kind: type) -> Callable[..., Any]:
    """A class golden: constructor and call each receive the inputs and attributes whose names they declare."""

    def call(*args: Any, **kwargs: Any) -> Any:
        names = [n for n in inspect.signature(kind.__call__).parameters if n not in ("self", "args", "kwargs")]
        pool = {**dict(zip(names, args, strict=False)), **kwargs}
        made = kind(**_accepted(vars(kind).get("__init__", lambda: None), pool))
        return made(*args, **{k: v for k, v in _accepted(kind.__call__, pool).items() if k not in names[: len(args)]})

    return call


def _accepted(function: Callable[..., Any], pool: Mapping[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return {k: v for k, v in pool.items() if k != "self"}
    return {k: v for k, v in pool.items() if k in parameters and k != "self"}


def positional_names(file: Path, entry: str, is_spec: bool, *, required_only: bool = False) -> Sequence[str]:
    """Names of the positional parameters of a golden, read from the syntax tree; empty when it is no plain function.

    required_only  leave out those with a default
    """
    for node in ast.walk(ast.parse(file.read_text(errors="replace"))):
        if isinstance(node, ast.ClassDef) and is_spec and node.name == entry:
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and inner.name == "golden":
                    return _parameters(inner.args, required_only)
        if isinstance(node, ast.FunctionDef) and not is_spec and node.name == entry:
            return _parameters(node.args, required_only)
    return ()


def _parameters(arguments: ast.arguments, required_only: bool) -> list[str]:
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    return names[: len(names) - len(arguments.defaults)] if required_only else names

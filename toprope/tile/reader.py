"""From a Python function to a Program: loops stay loops, names become loop variables, anything unknown is refused by name."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from toprope.tile.expressions import ArrayName, Expressions, Source, show_axes
from toprope.tile.language import Builtin, Dim, Param
from toprope.tile.program import ONE, Index, Loop, Number, Program, Region, Store, Value

__all__ = ["Cut", "Reader", "Source", "dims_of"]


class Cut(ast.Pass):
    """Where a product lies between the vector work before and behind it."""


class Reader(Expressions):
    """Reads one variant: fixed tile sizes, inner loops kept or (resident) laid out as their single trip."""

    # ---- statements --------------------------------------------------------------------------------------------------

    def program(self) -> Program:
        """Read the whole function. Raises TileError at the user's line."""
        nodes = self.block(self.source.node.body, 1)
        loops = [n for n in nodes if isinstance(n, Loop)]
        if len(loops) != 1 or len(nodes) != 1:
            last = self.source.node.body[-1]
            raise self.error(
                last, f"a kernel has one outermost tiles loop, its tasks for the cores; this one has {len(loops)}",
                "move the work into one loop, or write two kernels",
            )  # fmt: skip
        return Program(
            self.source.node.name, self.source.file, self.params, loops[0], self.indices, self.sizes, self.resident
        )

    def block(self, statements: Sequence[ast.stmt], depth: int) -> list[Loop | Region]:
        """Statements as regions and loops, in order."""
        nodes: list[Loop | Region] = []
        self.begin_region(depth)
        for statement in statements:
            if isinstance(statement, Cut):
                if self.region:
                    nodes.append(self.region)
                self.part += 1
                self.begin_region(depth)
            elif isinstance(statement, ast.For):
                self.loop(statement, nodes)
            elif isinstance(statement, ast.If):
                self.static_if(statement)
            else:
                self.statement(statement)
        if self.region:
            nodes.append(self.region)
        return nodes

    def begin_region(self, depth: int) -> None:
        """What is read from here on is straight-line work of its own."""
        self.region, self.known = Region(depth, self.part), {}

    def static_if(self, node: ast.If) -> None:
        """An if on constants of the signature is decided while reading; anything else is refused."""
        test = self.expression(node.test)
        if isinstance(test, Number) and test.value is not None:
            test = test.value
        if not isinstance(test, bool | int | float):
            raise self.unsupported(node)
        for statement in node.body if test else node.orelse:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        """One statement without control flow."""
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            self.assign(node.targets[0], node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self.assign(node.target, node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            left = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
            self.assign(node.target, ast.copy_location(ast.BinOp(left, node.op, node.value), node))
        elif isinstance(node, ast.Expr) and (isinstance(node.value, ast.Constant) or self.is_print(node.value)):
            return
        elif not isinstance(node, ast.Pass):
            raise self.unsupported(node)

    def is_print(self, node: ast.expr) -> bool:
        """print and breakpoint serve level A and are left out of the emitted kernel."""
        return (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "breakpoint")
        )

    def assign(self, target: ast.expr, source: ast.expr) -> None:
        """name = value, names = shape, or array[index] = value."""
        if isinstance(target, ast.Subscript):
            self.store(target, source)
            return
        self.bind(target, self.expression(source))

    def bind(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            if isinstance(value, Value) and not value.label:
                value.label = target.id
            self.env[target.id] = value
        elif isinstance(target, ast.Tuple) and isinstance(value, tuple) and len(target.elts) == len(value):
            for element, part in zip(target.elts, value, strict=True):
                self.bind(element, part)
        else:
            raise self.error(target, "this assignment cannot be taken apart", "assign one name, or unpack a shape")

    def store(self, target: ast.Subscript, source: ast.expr) -> None:
        """array[index] = value or array.add[index] = value."""
        array = self.expression(target.value)
        if not isinstance(array, ArrayName) or not array.param.written:
            raise self.error(target, "only an Out array can be stored to", "declare the parameter as Out[...]")
        value, where = self.expression(source), self.index(target, array)
        if not isinstance(value, Value):
            raise self.error(source, "a number is stored", "store a tile: tile.full((i,), number)")
        if value.op == "compare":
            raise self.error(source, "a condition is stored", "store a choice: tile.where(condition, 1, 0)")
        if value.dtype != array.param.dtype:
            raise self.error(
                source, f"a {value.dtype.name} tile is stored into the {array.param.dtype.name} array {array.name}", "add .to(...)"
            )  # fmt: skip
        axes = self.axes_of(where)
        if value.axes != axes and value.axes != (axes[1], ONE):
            raise self.error(
                target,
                f"a tile of axes {show_axes(value.axes)} is stored at {show_axes(axes)}",
                "index with its own axes",
            )
        self.region.stores.append(Store(array.name, where, self.use(value), array.atomic, target.lineno))

    def loop(self, node: ast.For, nodes: list[Loop | Region]) -> None:
        """A tiles loop: kept, or (inner loops of the resident variant) read as its single trip."""
        targets, pairs, options = self.loop_header(node)
        tunes = [self.open_size(e) for e in self.size_nodes(node)]
        if node.orelse:
            raise self.error(node, "for ... else", "remove the else")
        self.depth += 1
        if self.depth > 1:
            self.has_inner_loops = True
        if self.resident and self.depth > 1:
            for target, (extent, size), tune in zip(targets, pairs, tunes, strict=True):
                self.env[target.id] = self.new_index(f"all{extent.text}", extent, size, whole=True, tune=tune)
            for statement in node.body:
                if isinstance(statement, ast.For):
                    self.loop(statement, nodes)
                else:
                    self.statement(statement)
        else:
            self.kept_loop(node, nodes, targets, pairs, tunes, options)
        self.depth -= 1

    def size_nodes(self, node: ast.For) -> list[ast.expr]:
        """The sizes in a loop's header, as they are written."""
        assert isinstance(node.iter, ast.Call)
        pairs = [a.elts for a in node.iter.args if isinstance(a, ast.Tuple)]
        return [p[1] for p in pairs or [node.iter.args]]

    def open_size(self, size: ast.expr) -> str:
        """The tunable size that the caller left open, or nothing."""
        return size.id if isinstance(size, ast.Name) and size.id in self.free else ""

    def chooses(self, tunes: list[str], n: int, size: int) -> bool:
        """Whether the host chooses the size of the outermost loop's axis n: the first open one, in a kernel with inner loops."""
        return self.depth == 1 and self.nested and size > 1 and bool(tunes[n]) and not any(tunes[:n])

    def kept_loop(
        self, node: ast.For, nodes: list[Loop | Region], targets: list[ast.Name], pairs: list[tuple[Number, int]],
        tunes: list[str], options: dict[str, int],
    ) -> None:  # fmt: skip
        """A loop whose body reads and reassigns outer names through loop variables."""
        before, outer_depth = self.region, self.region.depth
        names = {
            n.id for s in node.body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        carried: dict[str, Value] = {}
        for name in sorted(names):
            start = self.env.get(name)
            if isinstance(start, Value):
                variable = Value(
                    "carried",
                    name,
                    [],
                    start.dtype,
                    start.axes,
                    node.lineno,
                    label=name,
                    persistent=True,
                    region=self.region,
                )
                self.made(Value("assign", "", [self.use(start)], start.dtype, start.axes, node.lineno, target=variable))
                carried[name] = self.env[name] = variable
        if before:
            nodes.append(before)
        indices = tuple(
            self.new_index(t.id, e, s, chosen=f"{t.id}Tile" if self.chooses(tunes, n, s) else "", tune=tunes[n])
            for n, (t, (e, s)) in enumerate(zip(targets, pairs, strict=True))
        )
        self.env |= {t.id: i for t, i in zip(targets, indices, strict=True)}
        outer = dict(self.env)
        body = self.block(node.body, options.get("depth", 1))
        if not body or isinstance(body[-1], Loop):
            self.begin_region(options.get("depth", 1))
        self.end_of_body(node, carried)
        if self.region and self.region not in body:
            body.append(self.region)
        self.env = {name: carried.get(name, value) for name, value in outer.items()}
        nodes.append(Loop(indices, body, node.lineno, options.get("depth", 1), options.get("swizzle", 1), self.part))
        self.begin_region(outer_depth)

    def end_of_body(self, node: ast.For, carried: dict[str, Value]) -> None:
        """Give the loop variables their values for the next step."""
        finals: list[tuple[Value, Value]] = []
        for name, variable in carried.items():
            value = self.env[name]
            if value is variable:
                continue
            if not isinstance(value, Value) or (value.axes, value.dtype) != (variable.axes, variable.dtype):
                raise self.error(
                    node, f"{name} changes its shape or element type inside the loop",
                    f"start it with the shape and type it ends with: {show_axes(variable.axes)} {variable.dtype.name}",
                )  # fmt: skip
            if value.op == "carried":  # two variables trade values: read before either is overwritten
                value = self.made(Value("copy", "", [value], value.dtype, value.axes, node.lineno))
            finals.append((variable, self.use(value)))
        for variable, value in finals:
            self.made(Value("assign", "", [value], value.dtype, value.axes, value.line, target=variable))

    def loop_header(self, node: ast.For) -> tuple[list[ast.Name], list[tuple[Number, int]], dict[str, int]]:
        """Names, (extent, size) pairs and options of `for ... in tiles(...)`."""
        call = node.iter
        if not (
            isinstance(call, ast.Call) and isinstance(b := self.expression(call.func), Builtin) and b.name == "tiles"
        ):
            raise self.error(node, f"for over {ast.unparse(call)}", "write for i in tile.tiles(extent, size)")
        many = isinstance(call.args[0], ast.Tuple)
        pairs: list[tuple[Number, int]] = []
        for argument in call.args if many else [ast.Tuple(list(call.args), ast.Load())]:
            if not isinstance(argument, ast.Tuple) or len(argument.elts) != 2:
                raise self.error(node, "tiles takes (extent, size) pairs", "write tiles(N, T) or tiles((M, R), (N, C))")
            extent, size = (self.expression(e) for e in argument.elts)
            if not isinstance(extent, Number) or not isinstance(size, Number) or not isinstance(size.value, int):
                raise self.error(
                    node, "the size of a tile is not a constant", "use a number or a tile.tune(...) parameter"
                )
            pairs.append((extent, size.value))
        targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        if len(targets) != len(pairs) or not all(isinstance(t, ast.Name) for t in targets):
            raise self.error(node, f"{len(pairs)} axes and {len(targets)} names", "one name per axis")
        options = {str(k.arg): self.constant(k.value) for k in call.keywords}
        for option in set(options) - {"depth", "swizzle"}:
            raise self.error(node, f"tiles has no option {option}", "its options are depth and swizzle")
        if options.get("swizzle", 1) != 1 and (not self.takes_swizzle or len(pairs) != 2):
            raise self.error(
                node, "swizzle on a loop that does not multiply", "it orders the two axes of a product's outer loop"
            )
        return [t for t in targets if isinstance(t, ast.Name)], pairs, options

    def new_index(
        self, name: str, extent: Number, size: int, *, whole: bool = False, chosen: str = "", tune: str = ""
    ) -> Index:
        """The axis of a loop; the same name over another extent gets a number."""
        index, base, n = Index(name, extent, size, whole, chosen, tune), name, 2
        while self.indices.get(index.name, index) != index:
            index, n = replace(index, name=f"{base}{n}"), n + 1
        self.indices[index.name] = index
        return index


def dims_of(params: dict[str, Param]) -> dict[str, Dim]:
    """All dimensions of a signature by name, in order."""
    return {d.name: d for p in params.values() for d in p.dims}

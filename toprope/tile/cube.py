"""Matrix products: the accumulator form of a kernel, read and printed for the cube.

The form is one loop over tiles of the result, an accumulator, one loop over K that adds a product, and one store; cast and relu at the
exit are done by Fixpipe on the way out. Placement: operands L1 rings (ND to NZ on the way in), halves of L0A and L0B, sum in L0C.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toprope.dtypes import Dtype
from toprope.soc import Soc
from toprope.tile import rules
from toprope.tile.language import Builtin, Param, bf16, f16, f32
from toprope.tile.program import Index
from toprope.tile.reader import Reader, Source

RESULTS = (f32, f16, bf16)
_QUANT = {f32: "NoQuant", f16: "F322F16", bf16: "F322BF16"}


@dataclass(frozen=True)
class Operand:
    """a[i, k], or b[j, k].T."""

    array: str
    where: tuple[Index, ...]
    transposed: bool


@dataclass(frozen=True)
class Product:
    """A matrix-product kernel for fixed tile sizes."""

    name: str
    file: str
    params: dict[str, Param]
    rows: Index
    columns: Index
    steps: Index
    left: Operand
    right: Operand
    result: str
    relu: bool
    swizzle: int
    lines: dict[str, int]
    sizes: dict[str, int]
    bias: str = ""

    @property
    def kind(self) -> Dtype:
        """The operands' element type."""
        return self.params[self.left.array].dtype

    def ledger_bytes(self) -> dict[str, int]:
        """Bytes of each memory: two buffers of every operand tile, one sum."""
        m, n, k = (-(-i.size // 16) * 16 for i in (self.rows, self.columns, self.steps))
        bias = n * 4 if self.bias else 0
        found = {"l1": 2 * (m + n) * k * 2 + bias, "l0a": 2 * m * k * 2, "l0b": 2 * n * k * 2, "l0c": m * n * 4}
        return {**found, "bias": bias} if bias else found

    def over(self, soc: Soc) -> list[str]:
        """Memories that are too small on this chip."""
        return [
            f"{m} needs {b} of {int(soc.number(f'spaces.{m}_bytes'))}"
            for m, b in self.ledger_bytes().items()
            if b > soc.number(f"spaces.{m}_bytes")
        ]

    def ledger(self, soc: Soc) -> str:
        """The bytes as a table with bars."""
        lines = [f"{self.name}: sums {self.rows.size} x {self.columns.size} in L0C, K in steps of {self.steps.size}"]
        for memory, used in self.ledger_bytes().items():
            have = int(soc.number(f"spaces.{memory}_bytes"))
            lines.append(f"  {memory:<5}{used:>8} of {have:>8}  {'#' * round(40 * used / have)}")
        return "\n".join(lines)


def is_product(source: Source) -> bool:
    """Whether a kernel works on the cube: it multiplies with @."""
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.MatMult) for n in ast.walk(source.node))


class ProductReader(Reader):
    """Reads the accumulator form; anything else that contains @ is refused at its line."""

    def product(self) -> Product:
        """The kernel as a Product. Raises TileError."""
        body = [s for s in self.source.node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        for statement in body[:-1]:
            self.statement(statement)
        outer = body[-1]
        if not isinstance(outer, ast.For):
            raise self.form(outer)
        self.takes_swizzle = True
        targets, pairs, options = self.loop_header(outer)
        self.takes_swizzle = False
        statements = outer.body
        if len(targets) != 2 or len(statements) != 3 or not isinstance(statements[1], ast.For):
            raise self.form(outer)
        rows, columns = (self.new_index(t.id, e, s) for t, (e, s) in zip(targets, pairs, strict=True))
        self.env |= {targets[0].id: rows, targets[1].id: columns}
        name, bias = self.accumulator(statements[0], columns)
        inner = statements[1]
        (target,), ((extent, size),), _ = self.loop_header(inner)
        steps = self.new_index(target.id, extent, size)
        self.env[target.id] = steps
        left, right = self.sum(inner.body, name)
        result, relu = self.exit(statements[2], name, (rows, columns))
        self.check(inner, left, right, (rows, columns, steps))
        lines = {
            "loop": outer.lineno,
            "acc": statements[0].lineno,
            "sum": inner.body[0].lineno,
            "store": statements[2].lineno,
        }
        return Product(
            self.source.node.name, self.source.file, self.params, rows, columns, steps, left, right, result, relu,
            options.get("swizzle", 1), lines, self.sizes, bias,
        )  # fmt: skip

    def form(self, node: ast.AST) -> Exception:
        return self.error(
            node, "a kernel with @ has another form than the cube's",
            "write: for i, j in tiles((M, BM), (N, BN)): acc = tile.acc((i, j)); for k in tiles(K, BK): acc = acc + a[i, k] @ b[k, j]; c[i, j] = acc.to(type)",
        )  # fmt: skip

    def accumulator(self, node: ast.stmt, columns: Index) -> tuple[str, str]:
        """The name of acc((i, j)), and the array of acc((i, j), bias=b[j]) or nothing."""
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=f, keywords=k)) if self.is_builtin(
                f, "acc"
            ):
                return name, self.bias(k[0], columns) if k else ""
        raise self.form(node)

    def bias(self, node: ast.keyword, columns: Index) -> str:
        """The float32 array that sums start with, through the bias table."""
        if node.arg == "bias" and isinstance(node.value, ast.Subscript):
            array: Any = self.expression(node.value.value)
            if self.index(node.value, array) == (columns,) and array.param.dtype == f32:
                return str(array.name)
        raise self.error(
            node.value, "an accumulator starts with something else than a row of float32",
            'write tile.acc((i, j), bias=b[j]) with b: In["N", tile.f32]',
        )  # fmt: skip

    def is_builtin(self, node: ast.expr, name: str) -> bool:
        found = self.expression(node) if isinstance(node, ast.Attribute | ast.Name) else None
        return isinstance(found, Builtin) and found.name == name

    def sum(self, body: list[ast.stmt], name: str) -> tuple[Operand, Operand]:
        """The operands of acc = acc + a @ b (or acc += a @ b)."""
        match body:
            case [
                ast.Assign(targets=[ast.Name(id=t)], value=ast.BinOp(left=ast.Name(id=s), op=ast.Add(), right=product))
            ] if t == s == name:
                pass
            case [ast.AugAssign(target=ast.Name(id=t), op=ast.Add(), value=product)] if t == name:
                pass
            case _:
                raise self.form(body[0])
        if not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.MatMult):
            raise self.form(product)
        return self.operand(product.left), self.operand(product.right)

    def operand(self, node: ast.expr) -> Operand:
        transposed = isinstance(node, ast.Attribute) and node.attr == "T"
        load = node.value if isinstance(node, ast.Attribute) and transposed else node
        if not isinstance(load, ast.Subscript):
            raise self.error(
                node, "an operand of @ is not a loaded tile", "multiply tiles of In arrays: a[i, k] @ b[k, j]"
            )
        array: Any = self.expression(load.value)
        found = self.index(load, array)
        where = tuple(i for i in found if isinstance(i, Index))
        if len(where) < len(found):
            raise self.error(node, "an operand of @ by index", "gather its rows into an array of their own first")
        with self.at(node):
            rules.require("@", rules.PRODUCTS, array.param.dtype)
        return Operand(array.name, where, transposed)

    def exit(self, node: ast.stmt, name: str, where: tuple[Index, Index]) -> tuple[str, bool]:
        """The array that receives the sum, and whether relu is applied."""
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript)):
            raise self.form(node)
        target, value, kind, relu = node.targets[0], node.value, f32, False
        array: Any = self.expression(target.value)
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "to":
            kind, value = self.expression(value.args[0]), value.func.value
        if isinstance(value, ast.Call) and self.is_builtin(value.func, "relu"):
            relu, value = True, value.args[0]
        if not isinstance(value, ast.Name) or value.id != name or self.index(target, array) != where:
            raise self.error(
                node,
                "the sum leaves by another way than Fixpipe offers",
                "store acc, acc.to(type) or tile.relu(acc).to(type) at [i, j]",
            )
        if kind != array.param.dtype or kind not in RESULTS or not array.param.written:
            raise self.error(
                node,
                f"a {kind.name} sum is stored into a {array.param.dtype.name} array",
                "add .to(type of the Out array)",
            )
        return array.name, relu

    def check(self, node: ast.AST, left: Operand, right: Operand, axes: tuple[Index, Index, Index]) -> None:
        rows, columns, steps = axes
        wanted = (steps, columns) if not right.transposed else (columns, steps)
        if left.where != ((steps, rows) if left.transposed else (rows, steps)) or right.where != wanted:
            raise self.error(
                node,
                "the operands' indices do not form a product",
                "write a[i, k] @ b[k, j], with a[k, i].T or b[j, k].T for operands that lie transposed",
            )
        if self.params[left.array].dtype != self.params[right.array].dtype:
            raise self.error(node, "the operands have two element types", "give both the same In[...] type")


_CLASS = """\
class Kernel@Title@ {
public:
    __aicore__ inline void Init(@init@) {
@keep@
        aGm.SetGlobalBuffer((__gm__ @T@*)@a@, static_cast<uint64_t>(@aRows@) * @aColumns@);
        bGm.SetGlobalBuffer((__gm__ @T@*)@b@, static_cast<uint64_t>(@bRows@) * @bColumns@);
        cGm.SetGlobalBuffer((__gm__ @C@*)@c@, static_cast<uint64_t>(@M@) * @cColumns@);
        pipe.InitBuffer(inA1, 2, BASE_M * BASE_K * sizeof(@T@));
        pipe.InitBuffer(inB1, 2, BASE_K * BASE_N * sizeof(@T@));
        pipe.InitBuffer(inA2, 2, BASE_M * BASE_K * sizeof(@T@));
        pipe.InitBuffer(inB2, 2, BASE_K * BASE_N * sizeof(@T@));
        pipe.InitBuffer(outCO1, 1, BASE_M * BASE_N * sizeof(float));
@biasInit@    }

    __aicore__ inline void Process() {
        const uint32_t tilesM = (@M@ + TILE_M - 1) / TILE_M, tilesN = (@N@ + TILE_N - 1) / TILE_N;
        for (uint32_t task = GetBlockIdx(); task < tilesM * tilesN; task += GetBlockNum()) {
@order@
            rows = @M@ - row < TILE_M ? @M@ - row : TILE_M;
            columns = @N@ - column < TILE_N ? @N@ - column : TILE_N;
            rowsUp = Up(rows);
            columnsUp = Up(columns);
@biasIn@            LocalTensor<float> sum = outCO1.AllocTensor<float>();
            for (step = 0; step < @K@; step += TILE_K) {
                depth = @K@ - step < TILE_K ? @K@ - step : TILE_K;
                depthUp = Up(depth);
                CopyIn();
                Split();
                Compute(sum);
            }
            outCO1.EnQue(sum);
            CopyOut();
        }
    }

private:
    __aicore__ inline uint32_t Up(uint32_t n) { return (n + 15) / 16 * 16; }

    // One tile of each operand into L1, as fractals (ND to NZ).
    __aicore__ inline void CopyIn() {
        @markSum@
        LocalTensor<@T@> a = inA1.AllocTensor<@T@>();
        LocalTensor<@T@> b = inB1.AllocTensor<@T@>();
        Nd2NzParams nd2nz;
        nd2nz.ndNum = 1;
        nd2nz.nValue = @aTileRows@;
        nd2nz.dValue = @aTileColumns@;
        nd2nz.srcDValue = @aColumns@;
        nd2nz.dstNzC0Stride = @aTileRows@Up;
        nd2nz.dstNzNStride = 1;
        DataCopy(a, aGm[static_cast<uint64_t>(@aRow@) * @aColumns@ + @aColumn@], nd2nz);
        nd2nz.nValue = @bTileRows@;
        nd2nz.dValue = @bTileColumns@;
        nd2nz.srcDValue = @bColumns@;
        nd2nz.dstNzC0Stride = @bTileRows@Up;
        DataCopy(b, bGm[static_cast<uint64_t>(@bRow@) * @bColumns@ + @bColumn@], nd2nz);
        inA1.EnQue(a);
        inB1.EnQue(b);
    }

@biasIn()@    // From L1 to L0A (zZ) and L0B (nZ), one line of fractals at a time.
    __aicore__ inline void Split() {
        LocalTensor<@T@> a1 = inA1.DeQue<@T@>();
        LocalTensor<@T@> b1 = inB1.DeQue<@T@>();
        LocalTensor<@T@> a2 = inA2.AllocTensor<@T@>();
        LocalTensor<@T@> b2 = inB2.AllocTensor<@T@>();
        LoadData2DParams load;
        load.repeatTimes = depthUp / 16;
@splitA@
        load.repeatTimes = columnsUp / 16;
@splitB@
        inA2.EnQue(a2);
        inB2.EnQue(b2);
        inA1.FreeTensor(a1);
        inB1.FreeTensor(b1);
    }

    __aicore__ inline void Compute(const LocalTensor<float>& sum) {
        LocalTensor<@T@> a = inA2.DeQue<@T@>();
        LocalTensor<@T@> b = inB2.DeQue<@T@>();
        @markSum@
        MmadParams mmad;
        mmad.m = rows == 1 ? 2 : rows;  // a single row would be read as a plain vector
        mmad.n = columns;
        mmad.k = depth;
        mmad.cmatrixInitVal = step == 0;
        if (step > 0 && mmad.m / 16 * (mmad.n / 16) < 10) PipeBarrier<PIPE_M>();  // small products may overtake the one before
@mmad@
        inA2.FreeTensor(a);
        inB2.FreeTensor(b);
    }

    __aicore__ inline void CopyOut() {
        LocalTensor<float> sum = outCO1.DeQue<float>();
        @markStore@
        FixpipeParamsV220 fixpipe;
        fixpipe.nSize = columns;
        fixpipe.mSize = rows;
        fixpipe.srcStride = rowsUp;
        fixpipe.dstStride = @cColumns@;
        fixpipe.quantPre = @quant@;
        fixpipe.reluEn = @relu@;
        Fixpipe<@C@, float, CFG_ROW_MAJOR>(cGm[static_cast<uint64_t>(row) * @cColumns@ + column], sum, fixpipe);
        outCO1.FreeTensor(sum);
    }

    static constexpr uint32_t TILE_M = @tileM@, TILE_N = @tileN@, TILE_K = @tileK@;
    static constexpr uint32_t BASE_M = @baseM@, BASE_N = @baseN@, BASE_K = @baseK@;  // in whole fractals
    TPipe pipe;
    TQue<TPosition::A1, 2> inA1;
    TQue<TPosition::B1, 2> inB1;
    TQue<TPosition::A2, 2> inA2;
    TQue<TPosition::B2, 2> inB2;
    TQue<TPosition::CO1, 1> outCO1;
@biasQueues@    GlobalTensor<@T@> aGm, bGm;
    GlobalTensor<@C@> cGm;
    uint32_t @dims@;
    uint32_t row = 0, column = 0, step = 0, rows = 0, columns = 0, depth = 0, rowsUp = 0, columnsUp = 0, depthUp = 0;
};
"""
_MMAD = "        Mmad(sum, a, b, mmad);"
_BIAS = {
    "biasInit": """\
        biasGm.SetGlobalBuffer((__gm__ float*)@bias@, @N@);
        pipe.InitBuffer(inC1, 1, BASE_N * sizeof(float));
        pipe.InitBuffer(inC2, 1, BASE_N * sizeof(float));
""",
    "biasIn": "            BiasIn();\n",
    "biasIn()": """\
    // The piece of bias for these columns into L1, zeros behind it, and on into the bias table.
    __aicore__ inline void BiasIn() {
        @markBias@
        LocalTensor<float> row = inC1.AllocTensor<float>();
        Fill(row, {1, static_cast<uint16_t>(columnsUp * sizeof(float) / 32), 0, 0.0f});
        PipeBarrier<PIPE_MTE2>();
        Nd2NzParams nd2nz;
        nd2nz.ndNum = 1;
        nd2nz.nValue = 1;
        nd2nz.dValue = columns;
        nd2nz.srcDValue = columns;
        nd2nz.dstNzC0Stride = 1;
        nd2nz.dstNzNStride = 1;
        DataCopy(row, biasGm[column], nd2nz);  // one row: fractals of a single line lie side by side
        inC1.EnQue(row);
        row = inC1.DeQue<float>();
        LocalTensor<float> table = inC2.AllocTensor<float>();
        DataCopy(table, row, DataCopyParams(1, columnsUp * sizeof(float) / 64, 0, 0));
        inC2.EnQue(table);
        inC1.FreeTensor(row);
    }

""",
    "mmad": """\
        if (step == 0) {
            LocalTensor<float> table = inC2.DeQue<float>();
            mmad.cmatrixInitVal = false;
            Mmad(sum, a, b, table, mmad);
            inC2.FreeTensor(table);
        } else {
            Mmad(sum, a, b, mmad);
        }""",
    "biasQueues": """\
    TQue<TPosition::C1, 1> inC1;
    TQue<TPosition::C2, 1> inC2;
    GlobalTensor<float> biasGm;
""",
}
_ORDER = """\
            row = task / tilesN * TILE_M;
            column = task % tilesN * TILE_N;"""
_SWIZZLE = """\
            // Down @swizzle@ rows of tiles before moving right: neighbours in time share operands in L2.
            const uint32_t band = task / (@swizzle@ * tilesN) * @swizzle@, inside = task % (@swizzle@ * tilesN);
            const uint32_t high = tilesM - band < @swizzle@ ? tilesM - band : @swizzle@;
            row = (band + inside % high) * TILE_M;
            column = inside / high * TILE_N;"""
_SPLIT_A = """\
        load.srcStride = rowsUp / 16;
        for (uint32_t i = 0; i < rowsUp / 16; i++) LoadData(a2[i * 16 * depthUp], a1[i * 256], load);"""
_SPLIT_A_TRANSPOSED = """\
        load.srcStride = 1;
        load.ifTranspose = true;
        for (uint32_t i = 0; i < rowsUp / 16; i++) LoadData(a2[i * 16 * depthUp], a1[i * 16 * depthUp], load);"""
_SPLIT_B = """\
        load.srcStride = depthUp / 16;
        load.ifTranspose = true;
        for (uint32_t i = 0; i < depthUp / 16; i++) LoadData(b2[i * 16 * columnsUp], b1[i * 256], load);"""
_SPLIT_B_TRANSPOSED = """\
        load.srcStride = 1;
        load.ifTranspose = false;
        for (uint32_t i = 0; i < depthUp / 16; i++) LoadData(b2[i * 16 * columnsUp], b1[i * 16 * columnsUp], load);"""


def product_class(p: Product, *, line_directives: bool) -> tuple[str, str]:
    """The class of a matrix product, and the statements that run it."""
    used = {n: q for n, q in p.params.items() if n in (p.left.array, p.right.array, p.result, p.bias)}
    names, dims = (
        list(used),
        list(
            {d.name: None for q in used.values() for d in q.dims}
            | {i.extent.text: None for i in (p.rows, p.columns, p.steps)}
        ),
    )
    python = Path(p.file).read_text().splitlines() if Path(p.file).exists() else []

    def mark(line: int) -> str:
        text = python[line - 1].strip() if line <= len(python) else ""
        return f"// {Path(p.file).name}:{line}  {text}" + (f'\n#line {line} "{p.file}"' if line_directives else "")

    a, b, c = p.params[p.left.array], p.params[p.right.array], p.params[p.result]
    words = {
        "Title": "".join(part.capitalize() for part in p.name.split("_")), "T": p.kind.cpp, "C": p.params[p.result].dtype.cpp,
        "a": p.left.array, "b": p.right.array, "c": p.result, "M": p.rows.extent.text, "N": p.columns.extent.text, "K": p.steps.extent.text,
        "aRows": a.dims[0].name, "aColumns": a.dims[1].name, "bRows": b.dims[0].name, "bColumns": b.dims[1].name,
        "cColumns": c.dims[1].name,
        "init": ", ".join([f"GM_ADDR {n}" for n in names] + [f"uint32_t {d}" for d in dims]),
        "keep": "\n".join(f"        this->{d} = {d};" for d in dims), "dims": ", ".join(f"{d} = 0" for d in dims),
        "order": _ORDER if p.swizzle == 1 else _SWIZZLE.replace("@swizzle@", str(p.swizzle)),
        "splitB": _SPLIT_B_TRANSPOSED if p.right.transposed else _SPLIT_B,
        "splitA": _SPLIT_A_TRANSPOSED if p.left.transposed else _SPLIT_A,
        "aTileRows": "depth" if p.left.transposed else "rows", "aTileColumns": "rows" if p.left.transposed else "depth",
        "aRow": "step" if p.left.transposed else "row", "aColumn": "row" if p.left.transposed else "step",
        "bTileRows": "columns" if p.right.transposed else "depth", "bTileColumns": "depth" if p.right.transposed else "columns",
        "bRow": "column" if p.right.transposed else "step", "bColumn": "step" if p.right.transposed else "column",
        "quant": _QUANT[p.params[p.result].dtype], "relu": "true" if p.relu else "false",
        "markSum": mark(p.lines["sum"]), "markStore": mark(p.lines["store"]),
    }  # fmt: skip
    for letter, index in zip("MNK", (p.rows, p.columns, p.steps), strict=True):
        words |= {f"tile{letter}": str(index.size), f"base{letter}": str(-(-index.size // 16) * 16)}
    plain = {**dict.fromkeys(_BIAS, ""), "mmad": _MMAD}
    words = {
        **(_BIAS if p.bias else plain),
        **words,
        "bias": p.bias,
        "markBias": mark(p.lines["acc"]),
    }  # pieces first: they hold words
    text = _CLASS
    for word, replacement in words.items():
        text = text.replace(f"@{word}@", replacement)
    body = f"    Kernel{words['Title']} op;\n    op.Init({', '.join(names + dims)});\n    op.Process();\n"
    return text, body

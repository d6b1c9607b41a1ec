"""The cube's part of an emitted kernel: operands through L1, L0A and L0B, sums in L0C, and out through Fixpipe."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from toprope.tile.cube import Product
from toprope.tile.language import bf16, f16, f32

BAND = "bandRows"  # the field that says how many rows of tiles make a band
_QUANT = {f32: "NoQuant", f16: "F322F16", bf16: "F322BF16"}

_CLASS = """\
class Kernel@Title@ {
public:
    __aicore__ inline void Init(@init@) {
@keep@
        aGm.SetGlobalBuffer((__gm__ @T@*)@a@, static_cast<uint64_t>(@aRows@) * @aColumns@);
        bGm.SetGlobalBuffer((__gm__ @T@*)@b@, static_cast<uint64_t>(@bRows@) * @bColumns@);
        cGm.SetGlobalBuffer((__gm__ @C@*)@c@, static_cast<uint64_t>(@M@) * @cColumns@);
        pipe.InitBuffer(inA1, 2, BASE_M * PACKET_K * sizeof(@T@));
        pipe.InitBuffer(inB1, 2, PACKET_K * BASE_N * sizeof(@T@));
        pipe.InitBuffer(inA2, 2, BASE_M * BASE_K * sizeof(@T@));
        pipe.InitBuffer(inB2, 2, BASE_K * BASE_N * sizeof(@T@));
        pipe.InitBuffer(sums, BASE_M * BASE_N * sizeof(float));
@biasInit@    }

@process@    // One tile of the result, which begins there.
    __aicore__ inline void Tile(uint32_t atRow, uint32_t atColumn) {
        row = atRow;
        column = atColumn;
        rows = @M@ - row < @high@ ? @M@ - row : @high@;
        columns = @N@ - column < @wide@ ? @N@ - column : @wide@;
        rowsUp = Up(rows);
        columnsUp = Up(columns);
@biasIn@        packet = 0;
        CopyIn();
        for (begin = 0; begin < @K@; begin += PACKET_K) {
            const uint32_t here = @K@ - begin < PACKET_K ? @K@ - begin : PACKET_K;
            hereUp = Up(here);
            packet = begin + PACKET_K;
            if (packet < @K@) CopyIn();  // the next one comes in while this one is multiplied
            LocalTensor<@T@> a1 = inA1.DeQue<@T@>();
            LocalTensor<@T@> b1 = inB1.DeQue<@T@>();
            for (step = 0; step < here; step += TILE_K) {
                depth = here - step < TILE_K ? here - step : TILE_K;
                depthUp = Up(depth);
                Split(a1, b1);
                Compute();
            }
            inA1.FreeTensor(a1);
            inB1.FreeTensor(b1);
        }
        CopyOut();
    }

private:
    __aicore__ inline uint32_t Up(uint32_t n) { return (n + 15) / 16 * 16; }

    // The next steps of each operand into L1.
    __aicore__ inline void CopyIn() {
        @markSum@
        const uint32_t depth = @K@ - packet < PACKET_K ? @K@ - packet : PACKET_K;
        LocalTensor<@T@> a = inA1.AllocTensor<@T@>();
        LocalTensor<@T@> b = inB1.AllocTensor<@T@>();
        CopyRows(a, aGm[static_cast<uint64_t>(@aRow@) * @aColumns@ + @aColumn@], @aTileRows@, @aTileColumns@, @aColumns@, column / @wide@);
        CopyRows(b, bGm[static_cast<uint64_t>(@bRow@) * @bColumns@ + @bColumn@], @bTileRows@, @bTileColumns@, @bColumns@, row / @high@);
        inA1.EnQue(a);
        inB1.EnQue(b);
    }

    // Rows into fractals (ND to NZ), part by part. Cores that need the same begin at different parts: each fetches some from HBM, and
    // finds in L2 what the others fetched.
    __aicore__ inline void CopyRows(const LocalTensor<@T@>& to, const GlobalTensor<@T@>& from, uint32_t height, uint32_t width,
                                    uint32_t pitch, uint32_t first) {
        @markSum@
        Nd2NzParams nd2nz;
        nd2nz.ndNum = 1;
        nd2nz.dValue = width;
        nd2nz.srcDValue = pitch;
        nd2nz.dstNzC0Stride = Up(height);
        nd2nz.dstNzNStride = 1;
        const uint32_t parts = (height + PART - 1) / PART;
        for (uint32_t n = first; n < first + parts; n++) {
            const uint32_t begin = n % parts * PART;
            nd2nz.nValue = height - begin < PART ? height - begin : PART;
            DataCopy(to[begin * 16], from[static_cast<uint64_t>(begin) * pitch], nd2nz);
        }
    }

@biasIn()@    // One step from L1 to L0A (zZ) and L0B (nZ).
    __aicore__ inline void Split(const LocalTensor<@T@>& a1, const LocalTensor<@T@>& b1) {
        LocalTensor<@T@> a2 = inA2.AllocTensor<@T@>();
        LocalTensor<@T@> b2 = inB2.AllocTensor<@T@>();
@splitA@
@splitB@
        inA2.EnQue(a2);
        inB2.EnQue(b2);
    }

    // The unit flag hands finished fractals to the copy out and free ones to the next tile; no queue is needed for the sums.
    __aicore__ inline void Compute() {
        LocalTensor<@T@> a = inA2.DeQue<@T@>();
        LocalTensor<@T@> b = inB2.DeQue<@T@>();
        LocalTensor<float> sum = sums.Get<float>();
        @markSum@
        MmadParams mmad;
        mmad.m = rows == 1 ? 2 : rows;  // a single row would be read as a plain vector
        mmad.n = columns;
        mmad.k = depth;
        mmad.cmatrixInitVal = begin + step == 0;
        mmad.unitFlag = begin + step + depth == @K@ ? 3 : 2;
        if (begin + step > 0 && mmad.m / 16 * (mmad.n / 16) < 10) PipeBarrier<PIPE_M>();  // small products may overtake the one before
@mmad@
        inA2.FreeTensor(a);
        inB2.FreeTensor(b);
    }

    __aicore__ inline void CopyOut() {
        @markStore@
        FixpipeParamsV220 fixpipe;
        fixpipe.nSize = columns;
        fixpipe.mSize = rows;
        fixpipe.srcStride = rowsUp;
        fixpipe.dstStride = @cColumns@;
        fixpipe.quantPre = @quant@;
        fixpipe.reluEn = @relu@;
        fixpipe.unitFlag = 3;
        Fixpipe<@C@, float, CFG_ROW_MAJOR>(cGm[static_cast<uint64_t>(row) * @cColumns@ + column], sums.Get<float>(), fixpipe);
    }

    static constexpr uint32_t TILE_M = @tileM@, TILE_N = @tileN@, TILE_K = @tileK@;
    static constexpr uint32_t BASE_M = @baseM@, BASE_N = @baseN@, BASE_K = @baseK@;  // in whole fractals
    static constexpr uint32_t PACKET_K = @packet@;  // what comes into L1 at a time
    static constexpr uint32_t PART = 32;            // rows of a copy
    TPipe pipe;
    TQue<TPosition::A1, 2> inA1;
    TQue<TPosition::B1, 2> inB1;
    TQue<TPosition::A2, 2> inA2;
    TQue<TPosition::B2, 2> inB2;
    TBuf<TPosition::CO1> sums;
@biasQueues@    GlobalTensor<@T@> aGm, bGm;
    GlobalTensor<@C@> cGm;
    uint32_t @dims@;
    uint32_t row = 0, column = 0, begin = 0, packet = 0, step = 0, rows = 0, columns = 0, depth = 0, rowsUp = 0, columnsUp = 0, depthUp = 0, hereUp = 0;
};
"""
_MMAD = "        Mmad(sum, a, b, mmad);"
_BIAS = {
    "biasInit": """\
        biasGm.SetGlobalBuffer((__gm__ float*)@bias@, @N@);
        pipe.InitBuffer(inC1, 1, BASE_N * sizeof(float));
        pipe.InitBuffer(inC2, 1, BASE_N * sizeof(float));
""",
    "biasIn": "        BiasIn();\n",
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
        if (begin + step == 0) {
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
_PROCESS = """\
    __aicore__ inline void Process() {
        const uint32_t tilesM = (@M@ + @high@ - 1) / @high@, tilesN = (@N@ + @wide@ - 1) / @wide@;
        for (uint32_t task = GetBlockIdx(); task < tilesM * tilesN; task += GetBlockNum()) {
            uint32_t row, column;
@order@
            Tile(row, column);
        }
    }

"""
_SPLIT_A = """\
        LoadData3DParamsV2<@T@> left;
        left.l1H = 1;
        left.l1W = rowsUp;
        left.channelSize = depthUp;
        left.kExtension = depthUp;
        left.mExtension = rowsUp;
        LoadData(a2, a1[step * rowsUp], left);"""
_SPLIT_A_TRANSPOSED = """\
        LoadData2DParams left;
        left.repeatTimes = depthUp / 16;
        left.srcStride = 1;
        left.ifTranspose = true;
        for (uint32_t i = 0; i < rowsUp / 16; i++) LoadData(a2[i * 16 * depthUp], a1[i * 16 * hereUp + step * 16], left);"""
_SPLIT_B = """\
        LoadData3DParamsV2<@T@> right;
        right.l1H = 1;
        right.l1W = hereUp;
        right.channelSize = columnsUp;
        right.kExtension = columnsUp;
        right.mExtension = depthUp;
        right.mStartPt = step;
        right.enTranspose = true;
        LoadData(b2, b1, right);"""
_SPLIT_B_TRANSPOSED = """\
        LoadData2DParams right;
        right.repeatTimes = columnsUp / 16;
        right.srcStride = 1;
        for (uint32_t i = 0; i < depthUp / 16; i++) LoadData(b2[i * 16 * columnsUp], b1[(step + i * 16) * columnsUp], right);"""


def order_text(swizzle: int, high: str, wide: str) -> list[str]:
    """row and column of a task: along the rows of tiles, or down a band of them before moving right."""
    if swizzle == 1:
        return [f"row = task / tilesN * {high};", f"column = task % tilesN * {wide};"]
    size = swizzle or BAND
    return [
        f"// Down {size} rows of tiles before moving right: neighbours in time share operands in L2.",
        f"const uint32_t band = task / ({size} * tilesN) * {size}, inside = task % ({size} * tilesN);",
        f"const uint32_t down = tilesM - band < {size} ? tilesM - band : {size};",
        f"row = (band + inside % down) * {high};",
        f"column = inside / down * {wide};",
    ]


_SHARED = r"\b(inA1|inB1|inA2|inB2|inC1|inC2|sums)\."


def shared_buffers(products: Sequence[Product]) -> str:
    """The memories of several products that take turns."""

    def most(size: Callable[[Product], int]) -> int:
        return max(size(p) for p in products)

    def up(size: int) -> int:
        return -(-size // 16) * 16

    rows = [
        ("TQue<TPosition::A1, 2>", "inA1", "2, ", most(lambda p: up(p.rows.size) * up(p.steps.size) * p.packet * 2)),
        ("TQue<TPosition::B1, 2>", "inB1", "2, ", most(lambda p: up(p.columns.size) * up(p.steps.size) * p.packet * 2)),
        ("TQue<TPosition::A2, 2>", "inA2", "2, ", most(lambda p: up(p.rows.size) * up(p.steps.size) * 2)),
        ("TQue<TPosition::B2, 2>", "inB2", "2, ", most(lambda p: up(p.columns.size) * up(p.steps.size) * 2)),
        ("TBuf<TPosition::CO1>", "sums", "", most(lambda p: up(p.rows.size) * up(p.columns.size) * 4)),
    ]
    if any(p.bias for p in products):
        wide = most(lambda p: up(p.columns.size) * 4)
        rows += [("TQue<TPosition::C1, 1>", "inC1", "1, ", wide), ("TQue<TPosition::C2, 1>", "inC2", "1, ", wide)]
    init = "".join(f"        pipe.InitBuffer({name}, {depth}{size});\n" for _, name, depth, size in rows)
    members = "".join(f"    {kind} {name};\n" for kind, name, _, _ in rows)
    return (
        "// The cube's memories, in which the products of this kernel take turns.\nstruct CubeBuffers {\n"
        f"    __aicore__ inline CubeBuffers() {{\n{init}    }}\n    TPipe pipe;\n{members}}};\n"
    )


def product_class(
    p: Product, *, line_directives: bool, alone: bool = True, shared: bool = False
) -> tuple[str, str, str]:
    """The class of a matrix product, its name, and the arguments of Init. `alone`: it deals out the tiles itself."""
    used = {n: q for n, q in p.params.items() if n in (p.left.array, p.right.array, p.result, p.bias)}
    names, dims = (
        list(used),
        list(
            {d.name: None for q in used.values() for d in q.dims}
            | {i.extent.text: None for i in (p.rows, p.columns, p.steps)}
            | {i.chosen: None for i in (p.rows, p.columns) if i.chosen}
            | ({BAND: None} if p.swizzle == 0 and alone else {})
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
        "high": p.rows.chosen or "TILE_M", "wide": p.columns.chosen or "TILE_N",
        "order": "\n".join(f"            {line}" for line in order_text(p.swizzle, p.rows.step, p.columns.step)),
        "aTileRows": "depth" if p.left.transposed else "rows", "aTileColumns": "rows" if p.left.transposed else "depth",
        "aRow": "packet" if p.left.transposed else "row", "aColumn": "row" if p.left.transposed else "packet",
        "bTileRows": "columns" if p.right.transposed else "depth", "bTileColumns": "depth" if p.right.transposed else "columns",
        "bRow": "column" if p.right.transposed else "packet", "bColumn": "packet" if p.right.transposed else "column",
        "quant": _QUANT[p.params[p.result].dtype], "relu": "true" if p.relu else "false",
        "markSum": mark(p.lines["sum"]), "markStore": mark(p.lines["store"]),
    }  # fmt: skip
    for letter, index in zip("MNK", (p.rows, p.columns, p.steps), strict=True):
        words |= {f"tile{letter}": str(index.size), f"base{letter}": str(-(-index.size // 16) * 16)}
    plain = {**dict.fromkeys(_BIAS, ""), "mmad": _MMAD}
    splits = {
        "process": _PROCESS if alone else "",
        "splitB": _SPLIT_B_TRANSPOSED if p.right.transposed else _SPLIT_B,
        "splitA": _SPLIT_A_TRANSPOSED if p.left.transposed else _SPLIT_A,
    }
    words["packet"] = f"{p.packet} * BASE_K"
    words = {
        **splits,
        **(_BIAS if p.bias else plain),
        **words,
        "bias": p.bias,
        "markBias": mark(p.lines["acc"]),
    }  # pieces first: they hold words
    text = _CLASS
    for word, replacement in words.items():
        text = text.replace(f"@{word}@", replacement)
    arguments = ", ".join(names + dims)
    if shared:
        kept = [line for line in text.splitlines() if not re.search(r"InitBuffer|^    (TQue|TBuf|TPipe)\b", line)]
        text = re.sub(_SHARED, r"cube->\1.", "\n".join(kept)) + "\n"
        text = text.replace("void Init(", "void Init(CubeBuffers* buffers, ").replace(
            f" {{\n{words['keep']}", f" {{\n        cube = buffers;\n{words['keep']}", 1
        )
        text = text.replace("    GlobalTensor<", "    CubeBuffers* cube = nullptr;\n    GlobalTensor<", 1)
        arguments = f"&cube, {arguments}"
    return text, f"Kernel{words['Title']}", arguments

"""The operations of a model in C++ (attention.cpp, layers.cpp)."""

from __future__ import annotations

import ctypes

import torch

from toprope.serve.kernels.attention import AttentionPlan
from toprope.serve.kernels.chip_clock import ChipClock
from toprope.serve.kernels.interface import Linear
from toprope.serve.kernels.kv_memory import KvMemory
from toprope.serve.kernels.native import load_library

_PANEL = 32  # outputs that lie together in a packed weight; layers.cpp has the same number
_POINTER, _COUNT, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float


class _CacheShape(ctypes.Structure):
    """Mirror of `CacheShape` in attention.cpp."""

    _fields_ = (
        ("block_stride", ctypes.c_int64),
        ("layer_offset", ctypes.c_int64),
        ("value_offset", ctypes.c_int64),
        ("block_tokens", ctypes.c_int32),
        ("heads", ctypes.c_int32),
        ("kv_heads", ctypes.c_int32),
        ("head", ctypes.c_int32),
    )


class CompiledKernels:
    """Calls into the shared library. Tensors must be contiguous; widths must be multiples of sixteen."""

    name = "compiled"
    batch_invariant = True
    memory: type[KvMemory] = KvMemory
    chip: ChipClock | None = None

    def __init__(self, dtype: torch.dtype) -> None:
        suffix = {torch.float32: "f32", torch.bfloat16: "bf16"}.get(dtype)
        if suffix is None:
            raise ValueError(f"there are no kernels for {dtype}\n  cure: use float32 or bfloat16")
        self.dtype = dtype
        library = load_library()

        def function(name: str, *arguments: type) -> ctypes._NamedFuncPointer:
            entry = getattr(library, f"{name}_{suffix}")
            entry.argtypes, entry.restype = arguments, None
            return entry  # type: ignore[no-any-return]

        shape = ctypes.POINTER(_CacheShape)
        self._linear = function("linear", *[_POINTER] * 4, *[_COUNT] * 3)
        self._logits = function("logits", *[_POINTER] * 3, *[_COUNT] * 3)
        self._rms_norm = function("rms_norm", *[_POINTER] * 4, _COUNT, _COUNT, _FLOAT)
        self._gated = function("gated", _POINTER, _POINTER, _COUNT, _COUNT)
        self._store = function("store_tokens", *[_POINTER] * 5, _COUNT, _POINTER, shape)
        self._attend = function("attention", *[_POINTER] * 3, shape, _POINTER, _POINTER, _COUNT, _FLOAT)
        self._shapes: dict[tuple[object, int, int], _CacheShape] = {}

    def pack(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
        """Panels of 32 outputs, `[outer / 32, inner, 32]`, the last one filled up with zeros."""
        outer, inner = weight.shape
        padded = torch.zeros((-(-outer // _PANEL) * _PANEL, inner), dtype=self.dtype)
        padded[:outer] = weight
        data = padded.view(-1, _PANEL, inner).transpose(1, 2).contiguous()
        return Linear(data, None if bias is None else bias.to(self.dtype).contiguous(), inner, outer)

    def linear(self, x: torch.Tensor, weight: Linear, out: torch.Tensor) -> None:
        """See `Kernels.linear`."""
        bias = None if weight.bias is None else weight.bias.data_ptr()
        self._linear(x.data_ptr(), weight.data.data_ptr(), bias, out.data_ptr(), x.shape[0], weight.inner, weight.outer)

    def logits(self, x: torch.Tensor, weight: Linear, out: torch.Tensor) -> None:
        """See `Kernels.logits`."""
        self._logits(x.data_ptr(), weight.data.data_ptr(), out.data_ptr(), x.shape[0], weight.inner, weight.outer)

    def embed(self, table: Linear, tokens: torch.Tensor, out: torch.Tensor) -> None:
        """See `Kernels.embed`. Reads the packed form, so tied embeddings are kept once."""
        out.copy_(table.data[tokens // _PANEL, :, tokens % _PANEL])

    def rms_norm(
        self, x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, out: torch.Tensor, epsilon: float
    ) -> None:
        """See `Kernels.rms_norm`."""
        sum_at = None if residual is None else residual.data_ptr()
        width = weight.shape[0]
        self._rms_norm(x.data_ptr(), sum_at, weight.data_ptr(), out.data_ptr(), x.numel() // width, width, epsilon)

    def gated(self, x: torch.Tensor, out: torch.Tensor) -> None:
        """See `Kernels.gated`."""
        self._gated(x.data_ptr(), out.data_ptr(), *out.shape)

    def store(
        self, qkv: torch.Tensor, heads: int, cosines: torch.Tensor, sines: torch.Tensor, plan: AttentionPlan,
        memory: KvMemory, layer: int,
    ) -> None:  # fmt: skip
        """See `Kernels.store`."""
        self._store(
            qkv.data_ptr(), cosines.data_ptr(), sines.data_ptr(), plan.positions.ctypes.data, plan.slots.ctypes.data,
            qkv.shape[0], memory.data.data_ptr(), self._shape(memory, heads, layer),
        )  # fmt: skip

    def attend(
        self, qkv: torch.Tensor, heads: int, plan: AttentionPlan, memory: KvMemory, layer: int, out: torch.Tensor
    ) -> None:
        """See `Kernels.attend`."""
        self._attend(
            qkv.data_ptr(), out.data_ptr(), memory.data.data_ptr(), self._shape(memory, heads, layer),
            plan.tables.ctypes.data, plan.pieces.ctypes.data, len(plan.pieces), memory.head**-0.5,
        )  # fmt: skip

    def _shape(self, memory: KvMemory, heads: int, layer: int) -> _CacheShape:
        key = (memory.shape, heads, layer)
        shape = self._shapes.get(key)
        if shape is None:
            value_offset = memory.kv_heads * memory.head * memory.block_tokens
            shape = self._shapes[key] = _CacheShape(
                2 * value_offset * memory.layers, 2 * value_offset * layer, value_offset,
                memory.block_tokens, heads, memory.kv_heads, memory.head,
            )  # fmt: skip
        return shape

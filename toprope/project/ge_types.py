"""Element types and formats by the vendor's numbers (ge::DataType, ge::Format), and the NumPy types that stand for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from toprope import dtypes
from toprope.errors import BadArgument
from toprope.project.definition import CPP_TYPES

# Page Utils-API/Tiling模板编程/模板参数定义.md lists the names; number 5 is not used.
_TYPES = [
    "FLOAT",
    "FLOAT16",
    "INT8",
    "INT32",
    "UINT8",
    "-",
    "INT16",
    "UINT16",
    "UINT32",
    "INT64",
    "UINT64",
    "DOUBLE",
    "BOOL",
    "STRING",
    "DUAL_SUB_INT8",
    "DUAL_SUB_UINT8",
    "COMPLEX64",
    "COMPLEX128",
    "QINT8",
    "QINT16",
    "QINT32",
    "QUINT8",
    "QUINT16",
    "RESOURCE",
    "STRING_REF",
    "DUAL",
    "VARIANT",
    "BF16",
    "UNDEFINED",
    "INT4",
    "UINT1",
    "INT2",
    "UINT2",
    "COMPLEX32",
    "HIFLOAT8",
    "FLOAT8_E5M2",
    "FLOAT8_E4M3FN",
    "FLOAT8_E8M0",
    "FLOAT6_E3M2",
    "FLOAT6_E2M3",
    "FLOAT4_E2M1",
    "FLOAT4_E1M2",
    "HIFLOAT4",
]
_FORMATS = [
    "NCHW",
    "NHWC",
    "ND",
    "NC1HWC0",
    "FRACTAL_Z",
    "NC1C0HWPAD",
    "NHWC1C0",
    "FSR_NCHW",
    "FRACTAL_DECONV",
    "C1HWNC0",
    "FRACTAL_DECONV_TRANSPOSE",
    "FRACTAL_DECONV_SP_STRIDE_TRANS",
    "NC1HWC0_C04",
    "FRACTAL_Z_C04",
    "CHWN",
    "FRACTAL_DECONV_SP_STRIDE8_TRANS",
    "HWCN",
    "NC1KHKWHWC0",
    "BN_WEIGHT",
    "FILTER_HWCK",
    "HASHTABLE_LOOKUP_LOOKUPS",
    "HASHTABLE_LOOKUP_KEYS",
    "HASHTABLE_LOOKUP_VALUE",
    "HASHTABLE_LOOKUP_OUTPUT",
    "HASHTABLE_LOOKUP_HITS",
    "C1HWNCoC0",
    "MD",
    "NDHWC",
    "FRACTAL_ZZ",
    "FRACTAL_NZ",
    "NCDHW",
    "DHWCN",
    "NDC1HWC0",
    "FRACTAL_Z_3D",
    "CN",
    "NC",
    "DHWNC",
    "FRACTAL_Z_3D_TRANSPOSE",
    "FRACTAL_ZN_LSTM",
    "FRACTAL_Z_G",
    "RESERVED",
    "ALL",
    "NULL",
    "ND_RNN_BIAS",
    "FRACTAL_ZN_RNN",
    "NYUV",
    "NYUV_A",
    "NCL",
    "FRACTAL_Z_WINO",
    "C1HWC0",
    "FRACTAL_NZ_C0_16",
    "FRACTAL_NZ_C0_32",
    "FRACTAL_NZ_C0_2",
    "FRACTAL_NZ_C0_4",
    "FRACTAL_NZ_C0_8",
]
_NUMPY_ONLY: dict[str, np.dtype[Any]] = {"COMPLEX64": np.dtype("complex64"), "COMPLEX128": np.dtype("complex128")}


@dataclass(frozen=True)
class GeType:
    """An element type: its number, its name without DT_, the C++ type that kernels use, and its NumPy type (None: there is none)."""

    number: int
    name: str
    cpp: str
    numpy: np.dtype[Any] | None

    def __str__(self) -> str:
        return f"DT_{self.name}"


def _numpy_of(name: str) -> np.dtype[Any] | None:
    if name in _NUMPY_ONLY:
        return _NUMPY_ONLY[name]
    try:
        found: np.dtype[Any] | None = dtypes.dtype(CPP_TYPES.get(name, "")).numpy
    except BadArgument:
        return None
    return found


GE_TYPES = {
    number: GeType(number, name, CPP_TYPES.get(name, "uint8_t"), _numpy_of(name))
    for number, name in enumerate(_TYPES)
    if name != "-"
}
_BY_NAME = {t.name: t for t in GE_TYPES.values()}
_BY_NUMPY = {t.numpy: t for t in GE_TYPES.values() if t.numpy is not None}


def ge_type(word: Any) -> GeType:
    """The element type that a word ("float16", "half", "DT_FLOAT16"), a NumPy type or a GeType names. Raises BadArgument."""
    if isinstance(word, GeType):
        return word
    if isinstance(word, str):
        plain = word.removeprefix("ge::").removeprefix("DT_").upper()
        if plain in _BY_NAME:
            return _BY_NAME[plain]
        word = dtypes.dtype(word).numpy
    found = _BY_NUMPY.get(np.dtype(word))
    if found is None:
        raise BadArgument(
            f"no operator takes elements of {word}",
            cure="convert them: float16, float32, bfloat16, bool or an integer type",
        )
    return found


def format_name(number: int) -> str:
    """The format's name without FORMAT_."""
    return _FORMATS[number & 0xFF] if (number & 0xFF) < len(_FORMATS) else str(number)


def format_number(word: str) -> int:
    """The number of a format such as "ND" or "FORMAT_NCHW". Raises BadArgument."""
    plain = word.removeprefix("FORMAT_")
    if plain not in _FORMATS:
        raise BadArgument(
            f"unknown data format {word!r}", cure="use one of ND, NCHW, NHWC, NC1HWC0, FRACTAL_NZ, NCDHW, ..."
        )
    return _FORMATS.index(plain)

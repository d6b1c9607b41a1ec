"""Layouts of tensors: indices of coordinates against NumPy, and tensors of a TensorTrait against tensors of its element type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_kernel import FRAME, Oracle, call, mistakes, ub_kernel
from toprope.kernel import KernelFile


def index_of(coord: tuple[int, ...], stride: tuple[int, ...]) -> int:
    return int(np.dot(coord, stride))


def parts(shape: tuple[int, ...], stride: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return shape, stride


ORACLES: dict[str, Oracle] = {
    "Crd2Idx": index_of,
    "Layout": index_of,
    **dict.fromkeys(["Shape", "Stride", "Coord", "MakeShape", "MakeStride", "MakeCoord", "MakeLayout"], parts),
    **dict.fromkeys(["is_layout", "is_tensorTrait"], isinstance),
    **dict.fromkeys(["TensorTrait", "MakeTensorTrait"], np.add),
}

# Every kernel fills z with numbers; what they must be stands in the tests.
INDICES = """
    auto shape = MakeShape(a, b, c);
    auto stride = MakeStride(b * c, c, 1);
    const Layout<Shape<int, int, int>, Stride<int, int, int>> whole = MakeLayout(shape, stride);
    z.SetValue(0, (int32_t)whole(MakeCoord(a - 1, b / 2, c - 2)));
    z.SetValue(1, (int32_t)Crd2Idx(MakeCoord(0, b - 1, 1), shape, stride));
    z.SetValue(2, (int32_t)Crd2Idx(MakeCoord(a - 1, 0, 0), whole.layout()));
    z.SetValue(3, (int32_t)Std::get<1>(whole.GetShape()));
    z.SetValue(4, (int32_t)Std::get<0>(whole.GetStride()));
    // a fractal layout: rows and columns are pairs, a plain number is split, the first of the pair fastest
    auto fractal = MakeLayout(MakeShape(MakeShape(16, a), MakeShape(16, b)), MakeStride(MakeStride(16, 256), MakeStride(1, 256 * a)));
    z.SetValue(5, (int32_t)fractal(MakeCoord(row, column)));
    z.SetValue(6, (int32_t)Crd2Idx(row, MakeShape(MakeShape(4, 4), a), MakeStride(MakeStride(1, 100), 1000)));
    auto constant = MakeLayout(MakeShape(MakeShape(Std::Int<2>{}, Std::Int<4>{}), MakeShape(Std::Int<3>{}, Std::Int<5>{})),
                               MakeStride(MakeStride(Std::Int<3>{}, Std::Int<6>{}), MakeStride(Std::Int<1>{}, Std::Int<24>{})));
    using Found = decltype(constant(MakeCoord(Std::Int<11>{}, Std::Int<12>{})));
    z.SetValue(7, (int32_t)Found::value);
"""
TRAITS = """
    auto layout = MakeLayout(MakeShape(8, 8), MakeStride(8, 1));
    auto made = MakeTensorTrait<float, TPosition::VECIN>(layout);
    using Made = decltype(made);
    z.SetValue(0, (int32_t)is_layout<decltype(layout)>::value);
    z.SetValue(1, (int32_t)is_layout<float>::value);
    z.SetValue(2, (int32_t)is_tensorTrait<Made>::value);
    z.SetValue(3, (int32_t)is_tensorTrait<float>::value);
    z.SetValue(4, (int32_t)(Std::is_same<Made::LiteType, float>::value && Made::tPos == TPosition::VECIN));
    Made other;
    other.SetLayout(layout);
    z.SetValue(5, (int32_t)Std::get<0>(other.GetLayout().GetShape()));
    z.SetValue(6, (int32_t)Std::get<0>(other.GetStride()));
    LocalTensor<Made> tensor;
    tensor.SetTensorTrait(made);
    z.SetValue(7, (int32_t)tensor.GetTensorTrait().GetLayout()(MakeCoord(3, 5)));
"""
# Page TensorTrait, more examples: queues and tensors of a trait, here of two element types.
ADD = """
template <typename T> __aicore__ inline void AddTraits(GM_ADDR x, GM_ADDR y, int32_t n) {
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 1, n * sizeof(T));
    pipe.InitBuffer(out, 1, n * sizeof(T));
    GlobalTensor<TensorTrait<T>> from, to;
    from.SetGlobalBuffer((__gm__ T*)x);
    to.SetGlobalBuffer((__gm__ T*)y);
    LocalTensor<TensorTrait<T>> a = in.AllocTensor<TensorTrait<T>>();
    DataCopy(a, from, n);
    in.EnQue(a);
    a = in.DeQue<TensorTrait<T>>();
    LocalTensor<TensorTrait<T>> b = out.AllocTensor<TensorTrait<T>>();
    Adds(b, a, T(3), n);
    out.EnQue<TensorTrait<T>>(b);
    in.FreeTensor(a);
    b = out.DeQue<TensorTrait<T>>();
    DataCopy(to, b, n);
    out.FreeTensor(b);
}
extern "C" __global__ __aicore__ void add_half(GM_ADDR x, GM_ADDR y, int32_t n) { AddTraits<half>(x, y, n); }
extern "C" __global__ __aicore__ void add_int(GM_ADDR x, GM_ADDR y, int32_t n) { AddTraits<int32_t>(x, y, n); }
"""


@pytest.fixture(scope="module")
def compiled() -> KernelFile:
    indices = ub_kernel("indices", {"z": "int32_t"}, INDICES, ["a", "b", "c", "row", "column"])
    return kernels(FRAME + indices + ub_kernel("traits", {"z": "int32_t"}, TRAITS) + ADD, "tensor_layout")


@pytest.mark.parametrize("shape", [(2, 3, 4), (5, 6, 7)])
@pytest.mark.parametrize("place", [(0, 0), (17, 30), (31, 47)])
def test_coordinates_become_indices(compiled: KernelFile, shape: tuple[int, int, int], place: tuple[int, int]) -> None:
    a, b, c = shape
    row, column = place
    z = np.zeros(8, np.int32)
    assert not mistakes(call(compiled, "indices", z, a, b, c, row, column))
    numbers = np.arange(a * b * c).reshape(shape)
    assert list(z[:3]) == [numbers[a - 1, b // 2, c - 2], numbers[0, b - 1, 1], numbers[a - 1, 0, 0]]
    assert list(z[3:5]) == [b, b * c]
    assert z[5] == row % 16 * 16 + row // 16 * 256 + column % 16 + column // 16 * 256 * a
    assert z[6] == index_of((row % 4, row // 4 % 4, row // 16), (1, 100, 1000))
    assert z[7] == 129  # the example of page Crd2Idx


def test_traits_say_what_they_are(compiled: KernelFile) -> None:
    z = np.zeros(8, np.int32)
    assert not mistakes(call(compiled, "traits", z))
    assert list(z) == [1, 0, 1, 0, 1, 8, 8, index_of((3, 5), (8, 1))]


@pytest.mark.parametrize("name,dtype", [("add_half", np.float16), ("add_int", np.int32)])
def test_tensors_of_a_trait_are_tensors_of_its_element_type(compiled: KernelFile, name: str, dtype: Any) -> None:
    x = np.arange(-100, 412).astype(dtype)
    y = np.zeros_like(x)
    run = getattr(compiled, name)[1](x, y, x.size)
    assert not mistakes(run)
    np.testing.assert_array_equal(y, np.add(x, dtype(3)))

// Shape, stride and coordinate tuples, the Layout made of them, and TensorTrait. Pages:
// 基础API/辅助数据结构/{Layout,Coordinate,TensorTrait}.
#pragma once

#include <tuple>

#include "kernel_macros.h"

namespace AscendC {

namespace Std {
using std::forward_as_tuple;
using std::get;
using std::make_tuple;
using std::tie;
using std::tuple;
using std::tuple_cat;
using std::tuple_element;
using std::tuple_size;
using std::tuple_size_v;
template <size_t value>
using Int = std::integral_constant<size_t, value>;
template <typename T>
struct is_tuple : std::false_type {};
template <typename... Ts>
struct is_tuple<tuple<Ts...>> : std::true_type {};
template <typename T>
inline constexpr bool is_tuple_v = is_tuple<T>::value;
}  // namespace Std

//: Shape | a tuple of extents, one a dimension; a dimension may itself be a tuple | integers and Std::Int | A2 A3 | Layout简介
template <typename... Extents>
using Shape = Std::tuple<Extents...>;
//: Stride | a tuple of distances in elements, one a dimension | integers and Std::Int | A2 A3 | Layout简介
template <typename... Distances>
using Stride = Std::tuple<Distances...>;
//: Coord | a tuple of positions, one a dimension | integers and Std::Int | A2 A3 | Coordinate简介
template <typename... Positions>
using Coord = Std::tuple<Positions...>;

//: MakeShape | packs its arguments into a Shape | integers, Std::Int, shapes | A2 A3 | MakeShape
template <typename... Ts>
constexpr Shape<Ts...> MakeShape(const Ts&... t) {
    return {t...};
}
//: MakeStride | packs its arguments into a Stride | integers, Std::Int, strides | A2 A3 | MakeStride
template <typename... Ts>
constexpr Stride<Ts...> MakeStride(const Ts&... t) {
    return {t...};
}
//: MakeCoord | packs its arguments into a Coord | integers, Std::Int, coordinates | A2 A3 | MakeCoord
template <typename... Ts>
constexpr Coord<Ts...> MakeCoord(const Ts&... t) {
    return {t...};
}

}  // namespace AscendC

namespace toprope {

template <typename T>
inline constexpr bool kIsConstant = false;
template <typename V, V value>
inline constexpr bool kIsConstant<std::integral_constant<V, value>> = true;

// The result of an operation is a constant type when both operands are, so that indices of constants stay constants.
#define TOPROPE_INDEX_OPERATION(name, expression)                                     \
    template <typename A, typename B>                                                 \
    constexpr auto name([[maybe_unused]] const A& a, [[maybe_unused]] const B& b) {   \
        if constexpr (kIsConstant<A> && kIsConstant<B>) {                             \
            constexpr size_t x = A::value, y = B::value;                              \
            return std::integral_constant<size_t, static_cast<size_t>(expression)>{}; \
        } else {                                                                      \
            const auto x = static_cast<size_t>(a), y = static_cast<size_t>(b);        \
            return static_cast<size_t>(expression);                                   \
        }                                                                             \
    }
TOPROPE_INDEX_OPERATION(index_sum, x + y)
TOPROPE_INDEX_OPERATION(index_product, x* y)
TOPROPE_INDEX_OPERATION(index_quotient, x / y)
TOPROPE_INDEX_OPERATION(index_remainder, x % y)
#undef TOPROPE_INDEX_OPERATION

// One number over the dimensions from i on: the first varies fastest, the last takes what is left.
template <size_t i, typename C, typename S, typename D>
constexpr auto index_of_number(const C& number, const S& shape, const D& stride);

template <size_t i, typename C, typename S, typename D>
constexpr auto index_of_tuple(const C& coord, const S& shape, const D& stride);

template <typename C, typename S, typename D>
constexpr auto index_of(const C& coord, const S& shape, const D& stride) {
    if constexpr (AscendC::Std::is_tuple_v<C>) {
        static_assert(AscendC::Std::is_tuple_v<S> && AscendC::Std::is_tuple_v<D>,
                      "Crd2Idx: a tuple as coordinate needs a tuple as shape and as stride");
        static_assert(std::tuple_size_v<C> == std::tuple_size_v<S> && std::tuple_size_v<C> == std::tuple_size_v<D>,
                      "Crd2Idx: coordinate, shape and stride differ in their number of dimensions");
        return index_of_tuple<0>(coord, shape, stride);
    } else if constexpr (AscendC::Std::is_tuple_v<S>) {
        static_assert(std::tuple_size_v<S> == std::tuple_size_v<D>, "Crd2Idx: shape and stride differ in their number of dimensions");
        return index_of_number<0>(coord, shape, stride);
    } else
        return index_product(coord, stride);
}
template <size_t i, typename C, typename S, typename D>
constexpr auto index_of_tuple(const C& coord, const S& shape, const D& stride) {
    if constexpr (i == std::tuple_size_v<C>)
        return std::integral_constant<size_t, 0>{};
    else
        return index_sum(index_of(std::get<i>(coord), std::get<i>(shape), std::get<i>(stride)),
                         index_of_tuple<i + 1>(coord, shape, stride));
}
template <typename S>
constexpr auto extent(const S& shape) {
    if constexpr (AscendC::Std::is_tuple_v<S>)
        return std::apply([](const auto&... e) { return (size_t{1} * ... * static_cast<size_t>(extent(e))); }, shape);
    else
        return shape;
}
template <size_t i, typename C, typename S, typename D>
constexpr auto index_of_number(const C& number, const S& shape, const D& stride) {
    if constexpr (i + 1 == std::tuple_size_v<S>)
        return index_of(number, std::get<i>(shape), std::get<i>(stride));
    else {
        const auto size = extent(std::get<i>(shape));
        return index_sum(index_of(index_remainder(number, size), std::get<i>(shape), std::get<i>(stride)),
                         index_of_number<i + 1>(index_quotient(number, size), shape, stride));
    }
}

}  // namespace toprope

namespace AscendC {

//: Crd2Idx | the place in memory, in elements, of a coordinate; a number given for several dimensions is split, the first of them fastest | integers and Std::Int | A2 A3 | Crd2Idx
template <typename CoordType, typename ShapeType, typename StrideType>
constexpr auto Crd2Idx(const CoordType& coord, const ShapeType& shape, const StrideType& stride) {
    return toprope::index_of(coord, shape, stride);
}

//: Layout | a Shape with its Stride; called with a Coord it gives the place in memory, in elements | - | A2 A3 | Layout简介
template <typename ShapeType, typename StrideType>
struct Layout {
    constexpr Layout(const ShapeType& shape = {}, const StrideType& stride = {}) : shape_(shape), stride_(stride) {}
    constexpr Layout& layout() { return *this; }
    constexpr const Layout& layout() const { return *this; }
    constexpr ShapeType& GetShape() { return shape_; }
    constexpr const ShapeType& GetShape() const { return shape_; }
    constexpr StrideType& GetStride() { return stride_; }
    constexpr const StrideType& GetStride() const { return stride_; }
    template <typename CoordType>
    constexpr auto operator()(const CoordType& coord) const {
        return Crd2Idx(coord, shape_, stride_);
    }

private:
    ShapeType shape_;
    StrideType stride_;
};
template <typename CoordType, typename ShapeType, typename StrideType>
constexpr auto Crd2Idx(const CoordType& coord, const Layout<ShapeType, StrideType>& layout) {
    return layout(coord);
}
//: MakeLayout | packs a Shape and a Stride into a Layout | - | A2 A3 | MakeLayout
template <typename ShapeType, typename StrideType>
constexpr auto MakeLayout(const ShapeType& shape, const StrideType& stride) {
    static_assert(Std::is_tuple_v<ShapeType> && Std::is_tuple_v<StrideType>, "MakeLayout: takes a Shape and a Stride");
    return Layout<ShapeType, StrideType>(shape, stride);
}
//: is_layout | value says whether a type is a Layout | any | A2 A3 | is_layout
template <typename T>
struct is_layout : std::false_type {};
template <typename ShapeType, typename StrideType>
struct is_layout<Layout<ShapeType, StrideType>> : std::true_type {};

// A TensorTrait that carries a layout.
template <typename T, TPosition pos, typename LayoutType>
struct TensorTraitWithLayout {
    static_assert(is_layout<LayoutType>::value, "TensorTrait: its third argument is a Layout");
    using LiteType = T;
    using LiteLayoutType = LayoutType;
    static constexpr TPosition tPos = pos;
    constexpr TensorTraitWithLayout(const LayoutType& t = {}) : layout_(t) {}
    LayoutType& GetLayout() { return layout_; }
    const LayoutType& GetLayout() const { return layout_; }
    auto& GetShape() const { return layout_.GetShape(); }
    auto& GetStride() const { return layout_.GetStride(); }
    void SetLayout(const LayoutType& t) { layout_ = t; }

private:
    LayoutType layout_;
};

//: TensorTrait | an element type with a position and a layout; without a layout it is its element type, so that every function takes such tensors | all element types | A2 A3 | TensorTrait简介
template <typename T, TPosition pos = TPosition::GM, typename LayoutType = Layout<Shape<>, Stride<>>>
using TensorTrait = std::conditional_t<std::is_same_v<LayoutType, Layout<Shape<>, Stride<>>> && pos == TPosition::GM, T,
                                       TensorTraitWithLayout<T, pos, LayoutType>>;
//: MakeTensorTrait | a TensorTrait of a layout | all element types | A2 A3 | MakeTensorTrait
template <typename T, TPosition pos, typename LayoutType>
constexpr auto MakeTensorTrait(const LayoutType& t) {
    return TensorTraitWithLayout<T, pos, LayoutType>(t);
}
//: is_tensorTrait | value says whether a type is a TensorTrait with a position or layout | any | A2 A3 | is_tensorTrait
template <typename T>
struct is_tensorTrait : std::false_type {};
template <typename T, TPosition pos, typename LayoutType>
struct is_tensorTrait<TensorTraitWithLayout<T, pos, LayoutType>> : std::true_type {};

// Tensors of a trait with a layout keep it; functions take their slices, which are tensors of the element type (page TensorTrait简介: the
// vendor's functions take no layouts either).
#define TOPROPE_TENSOR_OF_TRAIT(Tensor)                                          \
    template <typename T, TPosition pos, typename LayoutType>                    \
    class Tensor<TensorTraitWithLayout<T, pos, LayoutType>> : public Tensor<T> { \
    public:                                                                      \
        using Trait = TensorTraitWithLayout<T, pos, LayoutType>;                 \
        Trait& GetTensorTrait() { return trait_; }                               \
        const Trait& GetTensorTrait() const { return trait_; }                   \
        void SetTensorTrait(const Trait& trait) { trait_ = trait; }              \
                                                                                 \
    private:                                                                     \
        Trait trait_;                                                            \
    };
TOPROPE_TENSOR_OF_TRAIT(LocalTensor)
TOPROPE_TENSOR_OF_TRAIT(GlobalTensor)
#undef TOPROPE_TENSOR_OF_TRAIT

}  // namespace AscendC

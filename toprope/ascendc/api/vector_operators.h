// Whole-tensor expressions: dst = a + b, dst = a < b, ... evaluated when assigned, over the whole length of dst (comparisons: of the
// sources).
#pragma once

#include "vector_binary.h"
#include "vector_compare.h"

namespace toprope {

// The right operand of an operator. Made by an implicit conversion, whose defaulted argument is the only way an operator learns its line.
template <typename T>
struct PlacedTensor {
    AscendC::LocalTensor<T> tensor;
    Site site;
    PlacedTensor(const AscendC::LocalTensor<T>& t, Site s = Site::here()) : tensor(t), site(s) {}
    using Type = PlacedTensor;
};

template <typename Evaluate, typename T>
struct TensorExpression {
    AscendC::LocalTensor<T> left, right;
    Site site;
};
template <typename Evaluate, typename T>
struct WholeTensor<TensorExpression<Evaluate, T>> : TensorExpression<Evaluate, T> {
    template <typename D>
    void assign_to(const AscendC::LocalTensor<D>& dst) const {
        Evaluate::run(dst, this->left, this->right, this->site);
    }
};

}  // namespace toprope

#define TOPROPE_OPERATOR(symbol, Function)                                                                                      \
    namespace toprope {                                                                                                         \
    struct Whole##Function {                                                                                                    \
        template <typename D, typename T>                                                                                       \
        static void run(const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<T>& a, const AscendC::LocalTensor<T>& b, \
                        Site site) {                                                                                            \
            AscendC::Function(dst, a, b, static_cast<int32_t>(dst.GetSize()), site);                                            \
        }                                                                                                                       \
    };                                                                                                                          \
    }                                                                                                                           \
    namespace AscendC {                                                                                                         \
    template <typename T>                                                                                                       \
    toprope::WholeTensor<toprope::TensorExpression<toprope::Whole##Function, T>> operator symbol(                               \
        const LocalTensor<T>& a, const typename toprope::PlacedTensor<T>::Type& b) {                                            \
        return {{a, b.tensor, b.site}};                                                                                         \
    }                                                                                                                           \
    }
#define TOPROPE_COMPARISON(symbol, MODE)                                                                                        \
    namespace toprope {                                                                                                         \
    struct WholeCompare##MODE {                                                                                                 \
        template <typename D, typename T>                                                                                       \
        static void run(const AscendC::LocalTensor<D>& dst, const AscendC::LocalTensor<T>& a, const AscendC::LocalTensor<T>& b, \
                        Site site) {                                                                                            \
            AscendC::Compare(dst, a, b, AscendC::CMPMODE::MODE, a.GetSize(), site);                                             \
        }                                                                                                                       \
    };                                                                                                                          \
    }                                                                                                                           \
    namespace AscendC {                                                                                                         \
    template <typename T>                                                                                                       \
    toprope::WholeTensor<toprope::TensorExpression<toprope::WholeCompare##MODE, T>> operator symbol(                            \
        const LocalTensor<T>& a, const typename toprope::PlacedTensor<T>::Type& b) {                                            \
        return {{a, b.tensor, b.site}};                                                                                         \
    }                                                                                                                           \
    }

TOPROPE_OPERATOR(+, Add)
TOPROPE_OPERATOR(-, Sub)
TOPROPE_OPERATOR(*, Mul)
TOPROPE_OPERATOR(/, Div)
TOPROPE_OPERATOR(&, And)
TOPROPE_OPERATOR(|, Or)
TOPROPE_COMPARISON(<, LT)
TOPROPE_COMPARISON(>, GT)
TOPROPE_COMPARISON(<=, LE)
TOPROPE_COMPARISON(>=, GE)
TOPROPE_COMPARISON(==, EQ)
TOPROPE_COMPARISON(!=, NE)

// AscendC::Std::tuple: the C++ library's, under the vendor's name.
#pragma once
#include <tuple>

#include "../../kernel_operator.h"

namespace AscendC::Std {
using std::forward_as_tuple;
using std::get;
using std::make_tuple;
using std::tie;
using std::tuple;
using std::tuple_cat;
using std::tuple_element;
using std::tuple_size;
}  // namespace AscendC::Std

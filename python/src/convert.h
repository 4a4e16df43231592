#pragma once

#include <memory>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvik/types.h"

// Values between Python and C++. The caller holds the GIL.
namespace kvik::python {

namespace nb = nanobind;

// Bytes that are not UTF-8, such as a file name in a message, become U+FFFD; unpaired surrogates of templates are kept.
nb::str text_of(std::string_view utf8);

// From an int, a sequence of ints or a one-dimensional array of integers. Throws TypeError for anything else, and Error(kBadArgument) for
// ids that are not 32-bit numbers.
std::vector<TokenId> token_ids(nb::handle ids);
std::vector<std::vector<TokenId>> token_id_lists(nb::handle lists);

// Read-only NumPy arrays over the numbers, which they keep.
using FloatVector = nb::ndarray<nb::numpy, const float, nb::ndim<1>>;
using IdVector = nb::ndarray<nb::numpy, const TokenId, nb::ndim<1>>;
FloatVector array_of(std::shared_ptr<const float[]> values, size_t n);
FloatVector array_of(std::vector<float> values);
IdVector array_of(std::vector<TokenId> ids);

}  // namespace kvik::python

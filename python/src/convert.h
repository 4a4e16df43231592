#pragma once

#include <memory>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvik/kvik.h"

// Values between Python and C++. The caller holds the GIL.
namespace kvik::python {

namespace nb = nanobind;

// Bytes that are not UTF-8, such as a file name in a message, become U+FFFD; unpaired surrogates of templates are kept.
nb::str text_of(std::string_view utf8);
// Throws TypeError for anything but a str, and UnicodeEncodeError for one with unpaired surrogates.
std::string utf8_of(nb::handle text);

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
using Matrix = nb::ndarray<nb::numpy, float, nb::ndim<2>>;
Matrix matrix_of(const std::vector<Embedding>& embeddings);  // [texts, dimensions], writable

}  // namespace kvik::python

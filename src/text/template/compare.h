#pragma once

#include <cstdint>

#include "text/template/value.h"

namespace kvik::text::jinja {

// Python's ==. Shared parts can make a small value exponentially large to walk through, so each element visited takes one of `steps`;
// at none left it throws Error(kTooLarge).
bool equal(const Value& a, const Value& b, int64_t& steps);
bool equal(const Value& a, const Value& b);  // with a fixed number of steps

enum class Order { kLess, kEqual, kGreater, kUnordered };  // unordered: NaN
// Throws where Python says "not supported between instances of"; `symbol` is for that sentence.
Order order(const Value& a, const Value& b, std::string_view symbol, int64_t& steps);

}  // namespace kvik::text::jinja

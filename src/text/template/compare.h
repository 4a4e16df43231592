#pragma once

#include <cstdint>

#include "text/template/value.h"

namespace kvik::text::jinja {

// Python's ==. Shared parts can make a small value exponentially large to traverse, so each visited element takes one of `steps`;
// throws Error(kTooLarge) if none are left.
bool equal(const Value& a, const Value& b, int64_t& steps);
bool equal(const Value& a, const Value& b);  // with a fixed number of steps

enum class Order { kLess, kEqual, kGreater, kUnordered };  // unordered: NaN
// Throws if Python raises "not supported between instances of"; `symbol` is for the message.
Order order(const Value& a, const Value& b, std::string_view symbol, int64_t& steps);

}  // namespace kvik::text::jinja

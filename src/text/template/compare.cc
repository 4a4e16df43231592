#include "text/template/compare.h"

#include <algorithm>
#include <cmath>

#include "text/template/dict.h"
#include "text/template/fault.h"
#include "text/template/object.h"

namespace kvik::text::jinja {
namespace {

constexpr int64_t kFixedSteps = 1'000'000;

void take(int64_t& steps, size_t n_bytes = 0) {
  steps -= 1 + static_cast<int64_t>(n_bytes / 64);
  if (steps < 0) throw Fault(Code::kTooLarge, "the template compares values too large to compare; simplify it");
}

Order order_reals(double a, double b) {
  if (a < b) return Order::kLess;
  if (a > b) return Order::kGreater;
  return a == b ? Order::kEqual : Order::kUnordered;
}

template <typename T>
Order order_exactly(const T& a, const T& b) {
  return a < b ? Order::kLess : b < a ? Order::kGreater : Order::kEqual;
}

Order reversed(Order order) { return order == Order::kLess ? Order::kGreater : order == Order::kGreater ? Order::kLess : order; }

// Exact: 2**53 + 1 is not the float 2.0**53.
Order order_whole_with_real(const Value& whole, double real) {
  if (std::isnan(real)) return Order::kUnordered;
  if (std::isinf(real)) return real > 0 ? Order::kLess : Order::kGreater;
  const BigInt truncated = BigInt::from_double(real);
  const Order order = order_exactly(whole.as_big(), truncated);
  if (order != Order::kEqual) return order;
  return order_reals(0.0, real - std::trunc(real));
}

Order order_numbers(const Value& a, const Value& b) {
  const bool a_real = a.is(Kind::kFloat), b_real = b.is(Kind::kFloat);
  if (a_real && b_real) return order_reals(a.as_float(), b.as_float());
  if (a_real) return reversed(order_whole_with_real(b, a.as_float()));
  if (b_real) return order_whole_with_real(a, b.as_float());
  if (a.is(Kind::kBigInt) || b.is(Kind::kBigInt)) return order_exactly(a.as_big(), b.as_big());
  return order_exactly(a.as_int(), b.as_int());
}

bool same_cell(const Value& a, const Value& b) { return a.kind() == b.kind() && a.cell() != nullptr && a.cell() == b.cell(); }

bool equal_items(const std::vector<Value>& a, const std::vector<Value>& b, int64_t& steps) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Value& x, const Value& y) { return same_cell(x, y) || equal(x, y, steps); });
}

bool equal_dicts(const Dict& a, const Dict& b, int64_t& steps) {
  if (a.size() != b.size()) return false;
  return std::all_of(a.entries().begin(), a.entries().end(), [&](const Dict::Entry& entry) {
    const Value* other = b.find(entry.key);
    return other != nullptr && (same_cell(entry.value, *other) || equal(entry.value, *other, steps));
  });
}

}  // namespace

bool equal(const Value& a, const Value& b, int64_t& steps) {
  take(steps);
  if (a.is_number() && b.is_number()) return order_numbers(a, b) == Order::kEqual;
  if (a.is_undefined() && b.is_undefined()) return true;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kText:
      if (a.as_text().size() == b.as_text().size()) take(steps, a.as_text().size());
      return a.as_text() == b.as_text();
    case Kind::kList:
    case Kind::kTuple: return equal_items(a.as_items(), b.as_items(), steps);
    case Kind::kDict: return a.cell() == b.cell() || equal_dicts(a.as_dict(), b.as_dict(), steps);
    case Kind::kObject: return a.cell() == b.cell() || a.as_object().equals(b.as_object());
    default: return true;  // none
  }
}

bool equal(const Value& a, const Value& b) {
  int64_t steps = kFixedSteps;
  return equal(a, b, steps);
}

Order order(const Value& a, const Value& b, std::string_view symbol, int64_t& steps) {
  take(steps);
  if (a.is_number() && b.is_number()) return order_numbers(a, b);
  if (a.is_undefined()) fail("{}", a.why_undefined());
  if (b.is_undefined()) fail("{}", b.why_undefined());
  if (a.is_text() && b.is_text()) {  // UTF-8 sorts like its code points
    take(steps, std::min(a.as_text().size(), b.as_text().size()));
    return order_exactly(a.as_text(), b.as_text());
  }
  if (a.is_sequence() && a.kind() == b.kind()) {
    const std::vector<Value>&x = a.as_items(), &y = b.as_items();
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!same_cell(x[i], y[i]) && !equal(x[i], y[i], steps)) return order(x[i], y[i], symbol, steps);
    return order_exactly(x.size(), y.size());
  }
  fail("'{}' not supported between instances of '{}' and '{}'", symbol, type_name(a), type_name(b));
}

}  // namespace kvik::text::jinja

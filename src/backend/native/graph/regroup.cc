#include "backend/native/graph/regroup.h"

#include <algorithm>
#include <deque>
#include <numeric>

namespace kvik::native {
namespace {

// What is still missing of one new axis, for each set of sizes.
struct Remainder {
  Dims left;

  bool done() const {
    return std::all_of(left.begin(), left.end(), [](int64_t n) { return n == 1; });
  }
  bool takes(const Factor& factor, std::span<const Sizes> sizes) const {
    for (size_t i = 0; i < sizes.size(); ++i) {
      const int64_t size = sizes[i].of(factor);
      if (size < 1 || left[i] % size != 0) return false;
    }
    return true;
  }
  void take(const Factor& factor, std::span<const Sizes> sizes) {
    for (size_t i = 0; i < sizes.size(); ++i) left[i] /= sizes[i].of(factor);
  }
  int64_t common_with(int64_t n) const {
    for (const int64_t size : left) n = std::gcd(n, size);
    return n;
  }
};

std::optional<Axis> deal(std::deque<Factor>& factors, Remainder remainder, std::span<const Sizes> sizes) {
  Axis axis;
  while (!remainder.done()) {
    if (factors.empty()) return std::nullopt;
    Factor next = factors.front();
    factors.pop_front();
    if (!remainder.takes(next, sizes)) {
      if (next.is_symbol()) return std::nullopt;
      const int64_t part = remainder.common_with(next.size);
      if (part == 1) return std::nullopt;
      factors.push_front(factor(next.size / part));
      next = factor(part);
    }
    remainder.take(next, sizes);
    axis.push_back(next);
  }
  return canonical(std::move(axis));
}

}  // namespace

std::optional<Axes> regroup(const Axes& axes, std::span<const Dims> targets, std::span<const Sizes> sizes) {
  Axis flat;
  for (const Axis& axis : axes) flat.insert(flat.end(), axis.begin(), axis.end());
  flat = canonical(std::move(flat));
  std::deque<Factor> factors(flat.begin(), flat.end());

  Axes result;
  for (size_t a = 0; a < targets.front().size(); ++a) {
    Remainder remainder;
    for (const Dims& target : targets) {
      if (target[a] < 1) return std::nullopt;
      remainder.left.push_back(target[a]);
    }
    std::optional<Axis> axis = deal(factors, std::move(remainder), sizes);
    if (!axis) return std::nullopt;
    result.push_back(std::move(*axis));
  }
  if (!factors.empty()) return std::nullopt;
  return result;
}

}  // namespace kvik::native

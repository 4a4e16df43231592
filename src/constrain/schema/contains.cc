// `contains`: arrays in which a number of elements satisfies a schema.
#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "constrain/schema/compiler.h"
#include "constrain/schema/read_shape.h"

namespace kvik::constrain {
namespace {

constexpr size_t kMostContains = 4;          // of one array
constexpr size_t kMostArrayStates = 20'000;  // elements times counts

// How many elements were read, then how many of them satisfy each `contains`. Counters stop at the largest value that matters.
using Counts = std::vector<int>;

class CountedArray {
 public:
  CountedArray(const Shape& shape, size_t n_prefix) : shape_(shape) {
    const auto last = static_cast<int>(n_prefix);
    most_.push_back(shape.max_items >= 0 ? shape.max_items : std::max({last, shape.min_items, 1}));
    for (const ContainsPart& part : shape.contains) most_.push_back(part.most >= 0 ? part.most : part.least);
  }

  // The counts after one more element that satisfies these `contains`; nothing if no valid array can follow.
  std::optional<Counts> after(const Counts& counts, uint32_t chosen) const {
    Counts next = counts;
    if (counts[0] == most_[0] && shape_.max_items >= 0) return std::nullopt;
    next[0] = std::min(counts[0] + 1, most_[0]);
    for (size_t i = 0; i < shape_.contains.size(); ++i) {
      if ((chosen >> i & 1) == 0) continue;
      if (counts[i + 1] == most_[i + 1]) return std::nullopt;  // too many, or it does not matter any more
      ++next[i + 1];
    }
    return next;
  }

  bool is_enough(const Counts& counts) const {
    if (counts[0] < shape_.min_items) return false;
    for (size_t i = 0; i < shape_.contains.size(); ++i) {
      if (counts[i + 1] < shape_.contains[i].least) return false;
    }
    return true;
  }

 private:
  const Shape& shape_;
  std::vector<int> most_;
};

}  // namespace

NodeId SchemaCompiler::write_counted(const Shape& shape, size_t n_prefix) {
  if (shape.contains.size() > kMostContains)
    fail_schema(shape.where, fmt::format("more than {} times 'contains' is not supported", kMostContains));
  const CountedArray array(shape, n_prefix);
  // An element satisfies the `contains` that it counts for, and the negation of others that have a maximum.
  const auto element = [&](int index, uint32_t chosen) {
    Conjunction all = shape.element(std::min(static_cast<size_t>(index), n_prefix));
    for (size_t i = 0; i < shape.contains.size(); ++i) {
      const ContainsPart& part = shape.contains[i];
      if ((chosen >> i & 1) != 0) {
        all.push_back(part.schema);
      } else if (part.most >= 0) {
        all.push_back(resolver_.negation_of(part.schema));
      }
    }
    return value_of(all);
  };
  Graph graph;
  std::map<Counts, uint32_t> numbers;
  std::vector<Counts> states;
  const auto number_of = [&](const Counts& counts) {
    const auto [place, is_new] = numbers.try_emplace(counts, static_cast<uint32_t>(states.size()));
    if (!is_new) return place->second;
    if (states.size() >= kMostArrayStates)
      fail_schema(shape.where, "the limits of items and contains are too large to be counted together");
    if (!states.empty()) graph.add_state();
    states.push_back(counts);
    return place->second;
  };
  number_of(Counts(shape.contains.size() + 1, 0));
  for (uint32_t from = 0; from < states.size(); ++from) {
    const Counts counts = states[from];
    if (array.is_enough(counts)) graph.accepting.push_back(from);
    for (uint32_t chosen = 0; chosen < uint32_t{1} << shape.contains.size(); ++chosen) {
      const std::optional<Counts> next = array.after(counts, chosen);
      if (!next) continue;
      const NodeId value = element(counts[0], chosen);
      graph.edges.push_back({from, number_of(*next), counts[0] == 0 ? value : json_.after_comma(value)});
    }
  }
  return grammar_.sequence({grammar_.bytes("["), json_.space(), grammar_.graph(std::move(graph)), json_.space(), grammar_.bytes("]")});
}

}  // namespace kvik::constrain

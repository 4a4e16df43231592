#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <random>

#include "backend/native/attention/attention.h"
#include "backend/native/probe/arrange.h"

namespace kvik::native {
namespace {

using onnx::ValueId;

// A past input, and the output whose contents it gets in the next step.
struct Pair {
  ValueId past = onnx::kNoValue, present = onnx::kNoValue;
};

std::vector<Pair> pairs_of(const FlatGraph& flat) {
  std::vector<Pair> pairs;
  for (const FlatGraph::Input& input : flat.inputs) {
    if (input.state == nullptr || input.state->output < 0 || input.state->cross || input.state->position_axis < 0) continue;
    const auto output = static_cast<size_t>(input.state->output);
    if (output < flat.graph.outputs.size()) pairs.push_back({input.value, flat.graph.outputs[output]});
  }
  return pairs;
}

Tensor random_tensor(std::mt19937& random, Dims dims) {
  Tensor result(DType::kF32, std::move(dims));
  std::normal_distribution<float> normal;
  for (float& x : result.mutable_data<float>()) x = normal(random);
  return result;
}

// A cache in a smaller type keeps two or three digits.
bool is_near(float p, float q) { return std::abs(p - q) <= 1e-2f * (1 + std::abs(p)); }

bool same_numbers(const Tensor& a, const Tensor& b) {
  if (a.dims() != b.dims()) return false;
  const Tensor x = to_floats(a), y = to_floats(b);
  const std::span<const float> u = x.data<float>(), v = y.data<float>();
  return std::equal(u.begin(), u.end(), v.begin(), is_near);
}

class PastCheck {
 public:
  PastCheck(CompileState& state, std::span<const Append> appends) : state_(state), appends_(appends), pairs_(pairs_of(*state.flat)) {}

  Expected<std::string> run() {
    if (pairs_.empty()) return std::string();
    const int64_t n = state_.labels.one_token ? 1 : 3;
    KVIK_TRY(const Sizes first, sizes_at(state_.labels, {.fresh = n}));
    KVIK_TRY(const Sizes second, sizes_at(state_.labels, {.past = n}));
    draw(first);
    std::vector<Probe::Given> pasts;
    for (const Pair& pair : pairs_) {
      Expected<Tensor> present = state_.probes.at(first).get_with(pair.present, given_);
      if (!present) return fmt::format("past and present were not verified: {}", present.refusal().sentence());
      pasts.emplace_back(pair.past, std::move(*present));
    }
    for (size_t i = 0; i < appends_.size(); ++i) KVIK_CHECK(compare(second, pasts, i));
    return fmt::format("past and present verified for {} appends", appends_.size());
  }

 private:
  // What is appended holds random numbers; the past is empty.
  void draw(const Sizes& sizes) {
    std::mt19937 random(3);
    for (const Append& append : appends_) {
      const auto drawn = std::find_if(given_.begin(), given_.end(), [&](const auto& given) { return given.first == append.fresh; });
      const Tensor fresh = drawn != given_.end() ? drawn->second : random_tensor(random, sizes.of(state_.labels[append.fresh].axes));
      if (drawn == given_.end()) given_.emplace_back(append.fresh, fresh);
      fresh_.push_back(fresh);
    }
    for (const Pair& pair : pairs_) given_.emplace_back(pair.past, Tensor(DType::kF32, sizes.of(state_.labels[pair.past].axes)));
  }

  Expected<> compare(const Sizes& second, std::span<const Probe::Given> pasts, size_t i) {
    KVIK_TRY(const Evaluated<Tensor> seen, state_.probes.at(second).try_get_with(appends_[i].past, pasts));
    if (!seen) return refuse(fmt::format("'{}' cannot be computed from the present output: {}", name(appends_[i].past), seen.failure));
    if (!same_numbers(*seen, fresh_[i])) {
      return refuse(
          fmt::format("in the next step '{}' does not have the contents of '{}'", name(appends_[i].past), name(appends_[i].fresh)));
    }
    return {};
  }

  std::string_view name(ValueId id) const { return state_.labels.flat->graph.name_of(id); }

  CompileState& state_;
  std::span<const Append> appends_;
  std::vector<Pair> pairs_;
  std::vector<Probe::Given> given_;
  std::vector<Tensor> fresh_;  // by append
};

// Buffers that are cut and written back (FlatGraph::cut_buffer): in three steps, each append must read at the start of what was cut all
// that was appended before.
class BufferCheck {
 public:
  BufferCheck(CompileState& state, std::span<const Append> appends) : state_(state), appends_(appends), pairs_(pairs_of(*state.flat)) {}

  Expected<std::string> run() {
    if (pairs_.empty() || appends_.empty()) return refuse("it cannot be shown that values written to its buffers are read again");
    int64_t past = 0;
    for (const int64_t fresh : {3, 1, 2}) {
      KVIK_TRY(const Sizes sizes, sizes_at(state_.labels, {.past = past, .fresh = fresh, .batch = 2}));
      if (past == 0) empty_buffers(sizes);
      for (size_t i = 0; i < appends_.size() && past > 0; ++i) KVIK_CHECK(compare(sizes, i));
      KVIK_CHECK(step(sizes));
      past += fresh;
    }
    return fmt::format("past and present verified for {} appends", appends_.size());
  }

 private:
  using Rows = std::vector<std::vector<float>>;  // by batch entry

  void empty_buffers(const Sizes& sizes) {
    for (const Pair& pair : pairs_) buffers_.emplace_back(pair.past, Tensor(DType::kF32, sizes.of(state_.labels[pair.past].axes)));
    appended_.assign(appends_.size(), Rows(static_cast<size_t>(sizes.batch)));
  }

  Expected<Rows> rows_of(const Tensor& tensor, ValueId value, const Sizes& sizes, Symbol positions) const {
    KVIK_TRY(const std::vector<float> all, arrange(tensor, state_.labels[value].axes, sizes, std::array{Symbol::kBatch, positions}));
    const auto length = static_cast<std::ptrdiff_t>(all.size()) / sizes.batch;
    Rows rows;
    for (int64_t b = 0; b < sizes.batch; ++b) rows.emplace_back(all.begin() + b * length, all.begin() + (b + 1) * length);
    return rows;
  }

  Expected<> step(const Sizes& sizes) {
    std::vector<Probe::Given> given = buffers_;
    for (size_t i = 0; i < appends_.size(); ++i) {
      const ValueId value = appends_[i].fresh;
      const auto drawn = std::find_if(given.begin(), given.end(), [&](const auto& one) { return one.first == value; });
      const Tensor fresh = drawn != given.end() ? drawn->second : random_tensor(random_, sizes.of(state_.labels[value].axes));
      if (drawn == given.end()) given.emplace_back(value, fresh);
      KVIK_TRY(const Rows rows, rows_of(fresh, value, sizes, Symbol::kNew));
      for (size_t b = 0; b < rows.size(); ++b) appended_[i][b].insert(appended_[i][b].end(), rows[b].begin(), rows[b].end());
    }
    std::vector<Probe::Given> next;
    for (const Pair& pair : pairs_) {
      KVIK_TRY(Tensor present, state_.probes.at(sizes).get_with(pair.present, given));
      next.emplace_back(pair.past, std::move(present));
    }
    buffers_ = std::move(next);
    return {};
  }

  Expected<> compare(const Sizes& sizes, size_t i) {
    const ValueId cut = appends_[i].past;
    KVIK_TRY(const Tensor seen, state_.probes.at(sizes).get_with(cut, buffers_));
    KVIK_TRY(const Rows rows, rows_of(seen, cut, sizes, Symbol::kTotal));
    for (size_t b = 0; b < rows.size(); ++b) {
      const std::vector<float>& wanted = appended_[i][b];
      if (rows[b].size() >= wanted.size() && std::equal(wanted.begin(), wanted.end(), rows[b].begin(), is_near)) continue;
      const onnx::Graph& graph = state_.flat->graph;
      return refuse(
          fmt::format("in later steps '{}' does not have the contents of '{}'", graph.name_of(cut), graph.name_of(appends_[i].fresh)));
    }
    return {};
  }

  CompileState& state_;
  std::span<const Append> appends_;
  std::vector<Pair> pairs_;
  std::mt19937 random_{3};
  std::vector<Probe::Given> buffers_;
  std::vector<Rows> appended_;  // by append: rows of all steps so far
};

}  // namespace

Outcome<std::string> verify_past(CompileState& state, std::span<const Append> appends) {
  if (state.flat->cut_buffer) return BufferCheck(state, appends).run();
  return appends.empty() ? std::string() : PastCheck(state, appends).run();
}

}  // namespace kvik::native

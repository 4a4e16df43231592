#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "backend/native/attention/key_value_layout.h"
#include "backend/native/probe/arrange.h"

namespace kvik::native {
namespace {

using onnx::Node;
using onnx::ValueId;

constexpr size_t kLongestPath = 48;

// One edge from a row value to a value computed from it: by a node, or by an append, which does not change a row.
struct PathEdge {
  ValueId from = onnx::kNoValue, to = onnx::kNoValue;
  const Node* node = nullptr;  // null: an append
};

bool only_moves(const Node& node) {
  constexpr std::array<std::string_view, 9> kMoves = {"Reshape", "Transpose", "Squeeze",  "Unsqueeze", "Expand",
                                                      "Tile",    "Flatten",   "Identity", "Cast"};
  return node.domain.empty() && std::find(kMoves.begin(), kMoves.end(), node.op) != kMoves.end();
}

bool only_scales(const Labels& labels, const Node& node) {
  if (!node.domain.empty() || (node.op != "Mul" && node.op != "Div") || node.inputs.size() != 2) return false;
  const auto is_constant = [&](size_t i) { return labels[node.inputs[i]].kind == Label::Kind::kConstant; };
  return is_constant(1) || (node.op == "Mul" && is_constant(0));
}

std::optional<PathEdge> edge_to(const Labels& labels, ValueId id, bool may_scale) {
  const onnx::Graph& graph = labels.flat->graph;
  if (graph.value(id).producer == onnx::kNoNode) return {};
  const Node& node = graph.nodes[static_cast<size_t>(graph.value(id).producer)];
  if (const ValueId fresh = appended_by(labels, node); fresh != onnx::kNoValue) return PathEdge{fresh, id, nullptr};
  if (!only_moves(node) && !(may_scale && only_scales(labels, node))) return {};
  ValueId from = onnx::kNoValue;
  for (const ValueId input : node.inputs) {
    if (input == onnx::kNoValue || labels[input].kind != Label::Kind::kRow) continue;
    if (from != onnx::kNoValue) return {};
    from = input;
  }
  if (from == onnx::kNoValue || labels[from].poison >= 0 || holds(labels[from].axes, Symbol::kPast)) return {};
  return PathEdge{from, id, &node};
}

// Runs rows of one token at position 0 along a path.
class Path {
 public:
  Path(const AttentionContext& context, ValueId operand, bool may_scale) : context_(context), operand_(operand) {
    ValueId at = operand;
    while (edges_.size() < kLongestPath) {
      const auto edge = edge_to(context.labels, at, may_scale);
      if (!edge) break;
      edges_.push_back(*edge);
      at = edge->from;
    }
  }

  // Candidates in order of preference: the smallest, of those the earliest.
  std::vector<size_t> candidates() const {
    std::vector<size_t> result;
    for (size_t i = edges_.size(); i > 0; --i) result.push_back(i - 1);
    std::stable_sort(result.begin(), result.end(), [&](size_t a, size_t b) { return n_elements(a) < n_elements(b); });
    return result;
  }

  ValueId value(size_t candidate) const { return edges_[candidate].from; }
  int64_t n_elements(size_t candidate) const { return row_elements(context_.labels[value(candidate)].axes); }

  // The operand's row where the candidate's row holds these numbers.
  // Nullopt if a node cannot be run on a single row. May refuse.
  Expected<std::vector<float>> run(size_t candidate, const std::vector<float>& row) const {
    const int64_t buffer = context_.labels.flat->buffer;
    KVIK_TRY(const Sizes sizes, sizes_at(context_.labels, {.past = std::max<int64_t>(0, buffer - 1), .source = 1}));
    Probe& probe = context_.probes.at(sizes);
    Tensor tensor = Tensor::of<float>(row_dims(context_.labels[value(candidate)].axes), row);
    WorkBudget budget;
    for (size_t i = candidate + 1; i-- > 0;) {
      const PathEdge& edge = edges_[i];
      if (edge.node == nullptr) continue;
      const ExpectedValueOf value_of = [&](ValueId id) { return id == edge.from ? tensor : probe.get(id); };
      KVIK_TRY(const Evaluated<std::vector<Tensor>> made, try_run_node(*edge.node, value_of, budget));
      if (!made) return std::vector<float>();
      tensor = made->at(0);
    }
    return at_first_key(to_floats(tensor));
  }

  SourceMap operand_itself() const {
    SourceMap result;
    result.value = operand_;
    for (int64_t i = 0; i < row_elements(context_.labels[operand_].axes); ++i) result.map.push_back(static_cast<int32_t>(i));
    return result;
  }

 private:
  // The operand's row. If a graph broadcasts a row to all positions of a buffer, it is at each of them.
  std::vector<float> at_first_key(const Tensor& floats) const {
    const Axes& axes = context_.labels[operand_].axes;
    const Dims &whole = floats.dims(), row = row_dims(axes), strides = strides_of(whole);
    bool fits = whole.size() == row.size();
    for (size_t i = 0; fits && i < row.size(); ++i) fits = whole[i] == row[i] || axes[i] == Axis{factor(Symbol::kTotal)};
    if (!fits) return {};
    std::vector<float> result(static_cast<size_t>(element_count(row)));
    Dims at(row.size());
    for (float& x : result) {
      int64_t offset = 0;
      for (size_t i = 0; i < row.size(); ++i) offset += at[i] * strides[i];
      x = floats.data<float>()[static_cast<size_t>(offset)];
      for (size_t i = row.size(); i-- > 0 && ++at[i] == row[i];) at[i] = 0;
    }
    return result;
  }

  const AttentionContext& context_;
  ValueId operand_;
  std::vector<PathEdge> edges_;  // from the operand back
};

std::vector<float> random_row(int64_t n) {
  std::mt19937 random(7);
  std::vector<float> row(static_cast<size_t>(n));
  for (float& x : row) x = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-30f;
  return row;
}

// Probed with ones for the scale, with indices for the map, and with random numbers to check that this is all.
Expected<std::optional<SourceMap>> map_from(const Path& path, size_t candidate) {
  const int64_t n = path.n_elements(candidate);
  constexpr int64_t kMostExact = int64_t{1} << 24;
  if (n <= 0 || n >= kMostExact) return std::nullopt;
  KVIK_TRY(const std::vector<float> ones, path.run(candidate, std::vector<float>(static_cast<size_t>(n), 1)));
  if (ones.empty() || ones[0] == 0 || !std::isfinite(ones[0])) return std::nullopt;
  SourceMap result;
  result.value = path.value(candidate);
  result.scale = ones[0];
  if (std::any_of(ones.begin(), ones.end(), [&](float x) { return x != result.scale; })) return std::nullopt;

  std::vector<float> counting(static_cast<size_t>(n));
  for (size_t i = 0; i < counting.size(); ++i) counting[i] = static_cast<float>(i);
  KVIK_TRY(const std::vector<float> counted, path.run(candidate, counting));
  for (const float x : counted) {
    const float index = std::round(x / result.scale);
    if (!(index >= 0 && index < static_cast<float>(n))) return std::nullopt;
    result.map.push_back(static_cast<int32_t>(index));
  }
  const std::vector<float> row = random_row(n);
  KVIK_TRY(const std::vector<float> moved, path.run(candidate, row));
  if (moved.size() != result.map.size()) return std::nullopt;
  for (size_t i = 0; i < moved.size(); ++i) {
    const float expected = result.scale * row[static_cast<size_t>(result.map[i])];
    if (!(std::abs(moved[i] - expected) <= 1e-6f * std::abs(expected))) return std::nullopt;
  }
  return result;
}

}  // namespace

ValueId appended_by(const Labels& labels, const Node& node) {
  if (node.op == "TensorScatter" && node.inputs.size() > 1) return node.inputs[1];
  const bool scatters = node.domain.empty() && (node.op == "ScatterND" || node.op == "ScatterElements") && node.inputs.size() == 3;
  if (scatters && holds(labels[node.inputs[0]].axes, Symbol::kPast)) return node.inputs[2];
  const bool is_cut = labels.flat->cut_buffer && scatters && holds(labels[node.inputs[0]].axes, Symbol::kTotal);
  if (is_cut && labels[node.inputs[2]].kind == Label::Kind::kRow && !holds(labels[node.inputs[2]].axes, Symbol::kTotal))
    return node.inputs[2];
  if (node.op == "Add" && node.domain.empty() && node.inputs.size() == 2) {
    // The past where nothing is written, and what is new where it is written (label/cache_writes.h).
    for (const size_t past : {size_t{0}, size_t{1}}) {
      if (holds(labels[node.inputs[past]].axes, Symbol::kPast) && holds(labels[node.inputs[1 - past]].axes, Symbol::kTotal))
        return node.inputs[1 - past];
    }
  }
  if (node.op != "Concat" || !node.domain.empty() || node.inputs.size() != 2) return onnx::kNoValue;
  const Label &past = labels[node.inputs[0]], &whole = labels[node.outputs[0]];
  if (past.kind != Label::Kind::kRow || whole.kind != Label::Kind::kRow) return onnx::kNoValue;
  if (!holds(past.axes, Symbol::kPast) || !holds(whole.axes, Symbol::kTotal)) return onnx::kNoValue;
  return node.inputs[1];
}

SourceMap smallest_source(const AttentionContext& context, ValueId operand, bool may_scale) {
  const Path path(context, operand, may_scale);
  const int64_t own = row_elements(context.labels[operand].axes);
  for (const size_t candidate : path.candidates()) {
    if (path.n_elements(candidate) > own) break;
    // If it cannot be run on a single row, a later value will do.
    Expected<std::optional<SourceMap>> found = map_from(path, candidate);
    if (found && *found) return std::move(**found);
  }
  return path.operand_itself();
}

}  // namespace kvik::native

#include "backend/native/attention/score_row.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <unordered_map>

namespace kvik::native {
namespace {

using onnx::Node;
using onnx::ValueId;

template <size_t n>
bool is_one_of(const Node& node, const std::array<std::string_view, n>& ops) {
  return node.domain.empty() && std::find(ops.begin(), ops.end(), node.op) != ops.end();
}

// Their operands line up from the right.
constexpr std::array<std::string_view, 22> kElementwise = {"Add",  "Sub", "Mul",   "Div", "Pow", "Min",  "Max",  "Where",
                                                           "And",  "Or",  "Equal", "Neg", "Exp", "Log",  "Tanh", "Identity",
                                                           "Cast", "Abs", "Sqrt",  "Not", "Sum", "IsNaN"};
constexpr std::array<std::string_view, 5> kReshapes = {"Reshape", "Unsqueeze", "Squeeze", "Flatten", "Expand"};
// Their further operands are not tensors over rows.
constexpr std::array<std::string_view, 6> kOnScoresAlone = {"Transpose", "Softmax", "ReduceMax", "ReduceSum", "Clip", "Slice"};

class Slicer {
 public:
  Slicer(const AttentionContext& context, const RowSlice& slice)
      : context_(context), slice_(slice), all_{.fresh = slice.total}, row_{.fresh = 1, .past = slice.total - 1} {}

  Expected<Evaluated<Tensor>> run(const Tensor& scores) {
    const onnx::Graph& graph = context_.labels.flat->graph;
    values_[slice_.from] = scores;
    const auto known = [&](ValueId id) { return id == slice_.from || !context_.labels[id].is_score; };
    for (const onnx::NodeId n : nodes_needed(graph, slice_.to, known)) {
      KVIK_TRY(const bool is_run, run(graph.nodes[static_cast<size_t>(n)]));
      if (!is_run) return Evaluated<Tensor>{{}, failure_};
    }
    return evaluated(values_.at(slice_.to));
  }

 private:
  bool give_up(const Node& node) {
    failure_ = fmt::format("{}: it cannot be evaluated row by row", node.describe());
    return false;
  }

  // False if it cannot be taken row by row, or the graph does not define it.
  Expected<bool> run(const Node& node) {
    const Axes& axes = context_.labels[node.outputs.at(0)].axes;
    const bool lines_up = is_one_of(node, kElementwise) || (node.op == "Concat" && node.domain.empty());
    Tensor result;
    if (is_one_of(node, kReshapes)) {
      KVIK_TRY(const bool is_loaded, load(node, node.inputs.at(0), nullptr));
      if (!is_loaded) return false;
      const Tensor& from = loaded_[node.inputs[0]];
      if (from.size() != element_count(row_.of(axes))) return give_up(node);
      result = from.reshaped(row_.of(axes));
    } else if (lines_up || is_one_of(node, kOnScoresAlone)) {
      for (const ValueId id : node.inputs) {
        if (id == onnx::kNoValue) continue;
        KVIK_TRY(const bool is_loaded, load(node, id, lines_up ? &axes : nullptr));
        if (!is_loaded) return false;
      }
      KVIK_TRY(const Evaluated<std::vector<Tensor>> made, try_run_node(
                                                              node, [&](ValueId id) { return loaded_.at(id); }, budget_));
      if (!made) failure_ = made.failure;
      if (!made) return false;
      result = made->at(0);
    } else {
      return give_up(node);
    }
    if (result.dims() != row_.of(axes)) return give_up(node);
    values_[node.outputs[0]] = result;
    return true;
  }

  // A score's row, or another value: as it is, or (where it meets scores of these axes) what belongs to the row of it.
  Expected<bool> load(const Node& node, ValueId id, const Axes* axes) {
    const auto made = values_.find(id);
    if (made != values_.end()) {
      loaded_[id] = made->second;
      return true;
    }
    if (context_.labels[id].kind == Label::Kind::kRow) return refuse(node, "the bias on scores depends on the contents of rows");
    KVIK_TRY(const Evaluated<Tensor> found, context_.probes.at(all_).try_get(id));
    if (!found) failure_ = found.failure;
    if (!found) return false;
    Tensor tensor = *found;
    for (int from_right = 1; axes != nullptr && from_right <= tensor.rank() && from_right <= static_cast<int>(axes->size()); ++from_right) {
      const Axis& axis = axes->end()[-from_right];
      if (!holds(axis, Symbol::kNew) || tensor.dim(-from_right) == 1) continue;
      if (tensor.dim(-from_right) != all_.of(axis)) return give_up(node);
      tensor = rows_of(tensor, tensor.rank() - from_right, axis);
    }
    loaded_[id] = tensor;
    return true;
  }

  // The elements of an axis that belong to the row.
  Tensor rows_of(const Tensor& tensor, int at, const Axis& axis) {
    int64_t inner = 1, n_rows = 1, outer = 1;
    for (const Factor& factor : axis) {
      if (factor.is_symbol() && factor.symbol == Symbol::kNew) {
        n_rows = all_.of(factor);
      } else {
        (n_rows == 1 ? outer : inner) *= all_.of(factor);
      }
    }
    std::vector<int64_t> indices;
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) indices.push_back((o * n_rows + slice_.position) * inner + i);
    }
    const Node gather = {.op = "Gather", .opset = 13, .inputs = {0, 1}, .outputs = {2}, .attributes = {{"axis", static_cast<int64_t>(at)}}};
    const std::array<Tensor, 2> inputs = {tensor, Tensor::of<int64_t>({static_cast<int64_t>(indices.size())}, indices)};
    return onnx::run_kernel(gather, inputs).at(0);
  }

  const AttentionContext& context_;
  const RowSlice& slice_;
  Sizes all_, row_;
  WorkBudget budget_;
  std::unordered_map<ValueId, Tensor> values_;  // scores
  std::unordered_map<ValueId, Tensor> loaded_;  // operands of the node that is run
  std::string failure_;
};

}  // namespace

Expected<Evaluated<Tensor>> evaluate_row(const AttentionContext& context, const RowSlice& slice, const Tensor& scores) {
  return Slicer(context, slice).run(scores);
}

}  // namespace kvik::native

#include "backend/native/specialize/length_switch.h"

#include <algorithm>
#include <fmt/format.h>

#include "backend/native/probe/bisect.h"
#include "backend/native/specialize/input_meaning.h"
#include "backend/native/specialize/specialize.h"

namespace kvik::native {
namespace {

using onnx::Node;
using onnx::ValueId;

bool is_if(const Node& node) { return node.domain.empty() && node.op == "If" && !node.inputs.empty(); }

// The condition at the three sizes, where it must be one and the same.
Expected<bool> condition_of(CompileState& state, const Node& node) {
  const ValueId condition = node.inputs[0];
  if (state.labels[condition].kind == Label::Kind::kRow) return refuse(node, "the condition depends on the contents of rows");
  std::optional<bool> first;
  KVIK_TRY(const std::vector<Tensor> tensors, state.at_sizes(condition));
  for (const Tensor& tensor : tensors) {
    if (tensor.size() != 1 || tensor.dtype() != DType::kBool) return refuse(node, "the condition is not a single boolean");
    if (first.value_or(tensor.data<bool>()[0]) != tensor.data<bool>()[0]) return refuse(node, "the condition depends on the sizes");
    first = tensor.data<bool>()[0];
  }
  return *first;
}

// How a condition behaves as sequences get longer.
class LengthScan {
 public:
  LengthScan(CompileState& state, const Node& node, bool at_first) : state_(state), node_(node), at_first_(at_first) {}

  // The number of tokens after which the condition is the other one; nothing if it never is. Refuses one that changes twice.
  Expected<std::optional<int64_t>> run() {
    int64_t same = 0;
    bool changed = false;
    for (Sizes sizes : long_sizes(state_.labels, state_.options.context)) {
      // Not one token alone: a step that is only skipped there does not change the behavior.
      if (state_.flat->has_past && !state_.labels.one_token) sizes.fresh = 2, --sizes.past;
      KVIK_TRY(const std::optional<bool> other, differs(sizes));
      if (!other) break;  // the graph has no such length
      if (!*other) {
        if (changed) return refuse(node_, "the condition changes with the number of tokens more than once");
        same = sizes.total();
        continue;
      }
      if (!changed) {
        const auto is_same = [&](int64_t total) -> Expected<bool> {
          KVIK_TRY(const std::optional<bool> differs_there, differs(sizes_of(total, sizes.fresh)));
          return !differs_there.value_or(true);
        };
        KVIK_TRY(same, bisect(same, sizes.total(), is_same));
      }
      changed = true;
    }
    if (!changed) return std::nullopt;
    if (same < 2) return refuse(node_, "the condition depends on the number of tokens");
    return same;
  }

 private:
  // Nullopt if the graph does not define it.
  Expected<std::optional<bool>> differs(const Sizes& sizes) {
    KVIK_TRY(const Evaluated<Tensor> found, state_.probes.at(sizes).try_get(node_.inputs[0]));
    if (!found) return std::nullopt;
    return found->data<bool>()[0] != at_first_;
  }

  Sizes sizes_of(int64_t total, int64_t fresh) const {
    const int64_t n_new = state_.flat->has_past && total > 2 ? fresh : total;
    return {.fresh = n_new, .past = total - n_new};
  }

  CompileState& state_;
  const Node& node_;
  bool at_first_;
};

// Inputs alone: conditions that need more are not looked at.
void label_inputs(CompileState& state) {
  for (const FlatGraph::Input& input : state.flat->inputs) {
    const Expected<Label> label = input_label(state.labels, input, {});
    if (label) state.labels[input.value] = *label;
  }
}

std::optional<int64_t> switch_of(const analysis::File& file, const CompileOptions& options) {
  Outcome<std::shared_ptr<FlatGraph>> flat = specialize(file, options.cached_branch);
  if (!flat) return std::nullopt;
  CompileState state(*flat, options);
  label_inputs(state);
  for (onnx::NodeId id = 0; static_cast<size_t>(id) < state.flat->graph.nodes.size(); ++id) {
    if (!is_if(state.node(id))) continue;
    const Outcome<bool> branch = resolve_if(state, id);
    if (const Switch* change = branch.length_switch()) return change->length;
    if (!branch) continue;
    if (!inline_branch(*state.flat, id, *branch)) continue;  // it may contain further conditions
    state.labels.of_value.resize(state.flat->graph.values.size());
  }
  return std::nullopt;
}

}  // namespace

Outcome<bool> resolve_if(CompileState& state, onnx::NodeId id) {
  const Node node = state.node(id);
  Expected<bool> at_first = condition_of(state, node);
  if (!at_first) return std::move(at_first).refusal().about(node);
  Expected<std::optional<int64_t>> scanned = LengthScan(state, node, *at_first).run();
  if (!scanned) return std::move(scanned).refusal().about(node);
  const std::optional<int64_t> length = *scanned;
  if (!length) return *at_first;
  if (state.options.beyond == *length) return !*at_first;
  return Switch{*length,
                {node.describe(), fmt::format("the condition changes after {} tokens; with --context {} it never does", *length, *length)}};
}

int64_t length_switch_of(const analysis::Signature& signature) {
  using analysis::Stage;
  for (const analysis::File& file : signature.files) {
    const bool merged = file.stage == Stage::kDecoderMerged;
    if (!merged && file.stage != Stage::kDecoder && file.stage != Stage::kDecoderWithPast) continue;
    if (std::ranges::none_of(file.model->graph->nodes, is_if)) continue;
    for (const bool cached : {false, true}) {
      if (cached && !merged) continue;
      const auto length = switch_of(file, {.cached_branch = cached, .context = signature.max_positions.value_or(0)});
      if (length) return *length;
    }
  }
  return 0;
}

}  // namespace kvik::native

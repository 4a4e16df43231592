#include "backend/native/probe/probe.h"

#include <algorithm>
#include <fmt/format.h>

#include "backend/native/probe/sizes.h"

namespace kvik::native {
namespace {

using onnx::Node;
using onnx::NodeId;
using onnx::ValueId;

constexpr int64_t kLargestKept = int64_t{1} << 26;      // bytes of one result; a mask over a whole context is smaller
constexpr int64_t kMostKept = int64_t{1} << 29;         // bytes of all results of a probe
constexpr int64_t kLargestConstant = int64_t{1} << 20;  // of those that are computed

std::string quoted(const FlatGraph& flat, ValueId id) { return fmt::format("'{}'", flat.graph.name_of(id)); }

Tensor shape_from_axes(const Node& node, const Axes& axes, const Sizes& sizes) {
  const Dims dims = sizes.of(axes);
  if (node.op == "Size") return Tensor::scalar(element_count(dims));
  const auto rank = static_cast<int64_t>(dims.size());
  const auto bound = [&](std::string_view name, int64_t absent) {
    const int64_t at = node.int_or(name, absent);
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t start = bound("start", 0), end = std::max(start, bound("end", rank));
  return Tensor::of<int64_t>({end - start}, std::vector<int64_t>(dims.begin() + start, dims.begin() + end));
}

}  // namespace

Tensor Constants::load(ValueId id) {
  const onnx::TensorData* weight = flat_->graph.initializer_of(id);
  Tensor result = as_f32(onnx::load(*weight));
  if (result.dtype() != weight->dtype && static_cast<int64_t>(result.size_bytes()) <= kLargestConstant) kept_[id] = result;
  return result;
}

Expected<Tensor> Constants::get(ValueId id) {
  const auto found = kept_.find(id);
  if (found != kept_.end()) return found->second;
  const onnx::Graph& graph = flat_->graph;
  if (graph.initializer_of(id) != nullptr) return load(id);

  const auto known = [&](ValueId v) { return kept_.contains(v) || graph.initializer_of(v) != nullptr; };
  std::vector<ValueId> missing;
  const std::vector<NodeId> nodes = nodes_needed(graph, id, known, &missing);
  if (!missing.empty())
    return refuse(fmt::format("{} is not constant: it depends on {}", quoted(*flat_, id), quoted(*flat_, missing.front())));
  std::unordered_map<ValueId, Tensor> here;
  const ExpectedValueOf value_of = [&](ValueId v) -> Expected<Tensor> {
    const auto made = here.find(v);
    return made != here.end() ? made->second : get(v);
  };
  for (const NodeId n : nodes) {
    const Node& node = graph.nodes[static_cast<size_t>(n)];
    KVIK_TRY(const Evaluated<std::vector<Tensor>> made, try_run_node(node, value_of, budget_));
    if (!made) return refuse(made.failure);
    const std::vector<Tensor>& outputs = *made;
    for (size_t i = 0; i < node.outputs.size() && i < outputs.size(); ++i) {
      if (node.outputs[i] == onnx::kNoValue) continue;
      const bool small = static_cast<int64_t>(outputs[i].size_bytes()) <= kLargestConstant;
      (small ? kept_ : here)[node.outputs[i]] = outputs[i];
    }
  }
  return value_of(id);
}

// One evaluation: the given values and those computed from them.
class Probe::Run {
 public:
  Run(Probe& probe, std::span<const Given> given, bool has_tokens = false)
      : probe_(probe), flat_(*probe.labels_->flat), has_tokens_(has_tokens) {
    for (const Given& value : given) dependent_[value.first] = value.second;
  }

  Expected<Evaluated<Tensor>> get(ValueId target) {
    const auto known = [this](ValueId id) { return is_known(id); };
    std::vector<ValueId> missing;
    const std::vector<NodeId> nodes = nodes_needed(flat_.graph, target, known, &missing);
    if (refusal_) return *refusal_;
    if (!missing.empty())
      return refuse(fmt::format("{} depends on {}, which is unknown until the rows are computed", quoted(flat_, target),
                                quoted(flat_, missing.front())));
    for (const NodeId n : nodes) {
      if (!failure_.empty()) break;
      KVIK_CHECK(run(flat_.graph.nodes[static_cast<size_t>(n)]));
    }
    if (!failure_.empty()) return Evaluated<Tensor>{{}, failure_};
    KVIK_TRY(Tensor value, value_of(target));
    return evaluated(std::move(value));
  }

 private:
  bool is_known(ValueId id) {
    if (dependent_.contains(id) || probe_.is_kept(id) || large_.contains(id) || probe_.is_constant(id)) return true;
    if (const FlatGraph::Input* input = flat_.input_of(id)) {
      store(id, auxiliary_feed(feed_form(flat_), input->port, probe_.sizes_));
      return true;
    }
    if (const Label* label = label_of(id); label != nullptr && label->token_free && !has_tokens_) {
      store(id, probe_.try_get_with_tokens(id, ordinary_tokens(flat_, probe_.sizes_, 1)));
      return true;
    }
    return from_axes(id);
  }

  // Checks what must be known before any node runs; returns why if it is not.
  void store(ValueId id, const Expected<Tensor>& value) {
    if (value) {
      store(id, *value);
    } else if (!refusal_) {
      refusal_ = value.refusal();
    }
  }
  void store(ValueId id, const Expected<Evaluated<Tensor>>& value) {
    if (value && !*value) {
      failure_ = value->failure;
    } else {
      store(id, value ? Expected<Tensor>(**value) : Expected<Tensor>(value.refusal()));
    }
  }

  const Label* label_of(ValueId id) const {
    const auto& labels = probe_.labels_->of_value;
    return static_cast<size_t>(id) < labels.size() ? &labels[static_cast<size_t>(id)] : nullptr;
  }

  bool from_axes(ValueId id) {
    const NodeId producer = flat_.graph.value(id).producer;
    if (producer == onnx::kNoNode) return false;
    const Node& node = flat_.graph.nodes[static_cast<size_t>(producer)];
    if (!node.domain.empty() || (node.op != "Shape" && node.op != "Size")) return false;
    const Label* label = label_of(node.inputs.at(0));
    if (label == nullptr || label->kind != Label::Kind::kRow) return false;
    probe_.keep(id, shape_from_axes(node, label->axes, probe_.sizes_));
    return true;
  }

  Expected<Tensor> value_of(ValueId id) const {
    const auto dependent = dependent_.find(id);
    if (dependent != dependent_.end()) return dependent->second;
    const auto kept = probe_.kept_.find(id);
    if (kept != probe_.kept_.end()) return kept->second;
    const auto large = large_.find(id);
    return large != large_.end() ? Expected<Tensor>(large->second) : probe_.constants_->get(id);
  }

  bool depends_on_given(const Node& node) const {
    const auto dependent = [this](ValueId id) { return id != onnx::kNoValue && dependent_.contains(id); };
    return std::any_of(node.inputs.begin(), node.inputs.end(), dependent) ||
           std::any_of(node.captures.begin(), node.captures.end(), dependent);
  }

  Expected<> run(const Node& node) {
    KVIK_TRY(const Evaluated<std::vector<Tensor>> made, try_run_node(
                                                            node, [this](ValueId id) { return value_of(id); }, probe_.budget_));
    if (!made) {
      failure_ = made.failure;
      return {};
    }
    const std::vector<Tensor>& outputs = *made;
    const bool dependent = depends_on_given(node);
    for (size_t i = 0; i < node.outputs.size() && i < outputs.size(); ++i) {
      const ValueId id = node.outputs[i];
      if (id == onnx::kNoValue || dependent_.contains(id)) continue;
      if (dependent) {
        dependent_[id] = outputs[i];
        continue;
      }
      store(id, outputs[i]);
    }
    return {};
  }

  void store(ValueId id, const Tensor& tensor) {
    probe_.keep(id, tensor);
    if (!probe_.is_kept(id)) large_[id] = tensor;
  }

  Probe& probe_;
  const FlatGraph& flat_;
  bool has_tokens_;
  std::unordered_map<ValueId, Tensor> dependent_;  // given, or computed from what is
  std::unordered_map<ValueId, Tensor> large_;      // too large to keep beyond this evaluation
  std::optional<Refusal> refusal_;
  std::string failure_;
};

Probe::Probe(const Labels& labels, Constants& constants, const Sizes& sizes) : labels_(&labels), constants_(&constants), sizes_(sizes) {}

Expected<Evaluated<Tensor>> Probe::try_get_with(ValueId target, std::span<const Given> given) { return Run(*this, given).get(target); }

Expected<Evaluated<Tensor>> Probe::try_get_with_tokens(ValueId target, const Tensor& tokens) {
  std::vector<Given> given;
  for (const FlatGraph::Input& input : labels_->flat->inputs) {
    if (input.port == nullptr || input.port->role != analysis::Role::kTokenIds) continue;
    given.emplace_back(input.value, as_declared(*input.port, tokens));
  }
  return Run(*this, given, true).get(target);
}

void Probe::keep(ValueId id, const Tensor& tensor) {
  const auto bytes = static_cast<int64_t>(tensor.size_bytes());
  if (bytes > kLargestKept || kept_bytes_ + bytes > kMostKept) return;
  kept_bytes_ += bytes;
  kept_[id] = tensor;
}

bool Probe::is_constant(ValueId id) const {
  if (labels_->flat->graph.initializer_of(id) != nullptr) return true;
  return static_cast<size_t>(id) < labels_->of_value.size() && (*labels_)[id].kind == Label::Kind::kConstant;
}

Probe& ProbeBank::at(const Sizes& sizes) {
  for (const auto& probe : probes_) {
    if (probe->sizes() == sizes) return *probe;
  }
  return *probes_.emplace_back(std::make_unique<Probe>(*labels_, *constants_, sizes));
}

std::span<Probe* const> ProbeBank::triple() {
  if (!triple_.empty()) return triple_;
  for (const Sizes& sizes : size_triple(*labels_)) triple_.push_back(&at(sizes));
  return triple_;
}

}  // namespace kvik::native

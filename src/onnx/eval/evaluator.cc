#include "onnx/eval/evaluator.h"

#include <fmt/format.h>

#include "kvik/error.h"

namespace kvik::onnx {
namespace {

// Values of one graph while it runs. The frame of a subgraph reads captured values from the enclosing frame.
class Frame {
 public:
  // `inner_nodes` is counted down by all frames of a run.
  Frame(const Graph& graph, const Frame* outer, int64_t& inner_nodes)
      : graph_(graph), outer_(outer), inner_nodes_(inner_nodes), values_(graph.values.size()) {}

  void set(ValueId id, Tensor tensor) { values_[static_cast<size_t>(id)] = std::move(tensor); }
  void drop(ValueId id) { values_[static_cast<size_t>(id)] = Tensor(); }

  const Tensor& get(ValueId id) const {
    const Value& value = graph_.value(id);
    return value.outer != kNoValue ? outer_->get(value.outer) : values_[static_cast<size_t>(id)];
  }

  void run_node(const Node& node) {
    std::vector<Tensor> inputs(node.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (node.inputs[i] != kNoValue) inputs[i] = get(node.inputs[i]);
    }
    const RunSubgraph run_subgraph = [this](const Graph& graph, std::span<const Tensor> given) { return run_inner(graph, given); };
    std::vector<Tensor> outputs = run_kernel(node, inputs, run_subgraph);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      if (i >= outputs.size() || !outputs[i].defined())
        throw Error(Code::kUnsupported, fmt::format("{}: the reference evaluator does not compute output {}", node.describe(), i));
      set(node.outputs[i], std::move(outputs[i]));
    }
  }

  std::vector<Tensor> outputs() const {
    std::vector<Tensor> result;
    for (const ValueId id : graph_.outputs) result.push_back(get(id));
    return result;
  }

 private:
  std::vector<Tensor> run_inner(const Graph& graph, std::span<const Tensor> given) const {
    if (given.size() != graph.inputs.size()) {
      throw Error(Code::kBadModel, fmt::format("a subgraph has {} inputs; {} were given", graph.inputs.size(), given.size()));
    }
    inner_nodes_ -= static_cast<int64_t>(graph.nodes.size()) + 1;
    if (inner_nodes_ < 0) throw Error(Code::kTooLarge, "branches and loops execute too many nodes");
    Frame frame(graph, this, inner_nodes_);
    for (size_t i = 0; i < given.size(); ++i) frame.set(graph.inputs[i], given[i]);
    for (size_t i = 0; i < graph.values.size(); ++i) {
      const auto id = static_cast<ValueId>(i);
      if (const TensorData* weight = graph.initializer_of(id)) frame.set(id, load(*weight));
    }
    for (const Node& node : graph.nodes) frame.run_node(node);
    return frame.outputs();
  }

  const Graph& graph_;
  const Frame* outer_;
  int64_t& inner_nodes_;
  std::vector<Tensor> values_;
};

std::vector<NodeId> last_uses(const Graph& graph) {
  std::vector<NodeId> last(graph.values.size(), kNoNode);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto mark = [&](ValueId id) {
      if (id != kNoValue) last[static_cast<size_t>(id)] = static_cast<NodeId>(n);
    };
    for (const ValueId id : graph.nodes[n].inputs) mark(id);
    for (const ValueId id : graph.nodes[n].captures) mark(id);
    for (const ValueId id : graph.nodes[n].outputs) mark(id);  // an unused output is freed at once
  }
  for (const ValueId id : graph.outputs) last[static_cast<size_t>(id)] = kNoNode;
  return last;
}

}  // namespace

Evaluator::Evaluator(const Graph& graph, int64_t most_inner_nodes)
    : graph_(graph), most_inner_nodes_(most_inner_nodes), last_use_(last_uses(graph)) {}

std::vector<Tensor> Evaluator::run(const Feeds& feeds) {
  if (weights_.empty()) {
    for (const TensorData& weight : graph_.initializers) weights_.push_back(load(weight));
  }
  int64_t inner_nodes = most_inner_nodes_;
  Frame frame(graph_, nullptr, inner_nodes);
  for (size_t i = 0; i < graph_.values.size(); ++i) {
    const int initializer = graph_.values[i].initializer;
    if (initializer >= 0) frame.set(static_cast<ValueId>(i), weights_[static_cast<size_t>(initializer)]);
  }
  size_t n_fed = 0;
  const auto feed = [&](ValueId id, bool required) {
    const auto found = feeds.find(graph_.name_of(id));
    if (found != feeds.end()) {
      frame.set(id, found->second);
      ++n_fed;
    } else if (required) {
      throw Error(Code::kBadArgument, fmt::format("the input '{}' is missing", graph_.name_of(id)));
    }
  };
  for (const ValueId id : graph_.inputs) feed(id, true);
  for (const ValueId id : graph_.defaulted_inputs) feed(id, false);
  if (n_fed != feeds.size())
    throw Error(Code::kBadArgument, fmt::format("{} inputs were given; the graph has {} of them", feeds.size(), n_fed));

  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    const Node& node = graph_.nodes[n];
    frame.run_node(node);
    const auto drop = [&](ValueId id) {
      if (id != kNoValue && last_use_[static_cast<size_t>(id)] == static_cast<NodeId>(n) && graph_.value(id).initializer < 0)
        frame.drop(id);
    };
    for (const ValueId id : node.inputs) drop(id);
    for (const ValueId id : node.captures) drop(id);
    for (const ValueId id : node.outputs) drop(id);
  }
  return frame.outputs();
}

}  // namespace kvik::onnx

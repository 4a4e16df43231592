#include "onnx/topological_order.h"

#include <fmt/format.h>
#include <functional>
#include <queue>

#include "kvik/error.h"

namespace kvik::onnx {
namespace {

template <class Visit>
void for_each_producer(const Graph& graph, const Node& node, Visit visit) {
  const auto see = [&](ValueId id) {
    if (id != kNoValue && graph.value(id).producer != kNoNode) visit(graph.value(id).producer);
  };
  for (const ValueId id : node.inputs) see(id);
  for (const ValueId id : node.captures) see(id);
}

bool in_order(const Graph& graph) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    bool ordered = true;
    for_each_producer(graph, graph.nodes[n], [&](NodeId producer) { ordered = ordered && producer < static_cast<NodeId>(n); });
    if (!ordered) return false;
  }
  return true;
}

// Every value that a node reads must be defined.
void check_defined(const Graph& graph) {
  std::vector<bool> is_input(graph.values.size(), false);
  for (const ValueId id : graph.inputs) is_input[static_cast<size_t>(id)] = true;
  const auto check = [&](ValueId id, std::string_view reader) {
    if (id == kNoValue) return;
    const Value& value = graph.value(id);
    if (value.producer != kNoNode || value.initializer >= 0 || value.outer != kNoValue || is_input[static_cast<size_t>(id)]) return;
    throw Error(Code::kBadModel, fmt::format("{} reads '{}', which no node computes", reader, value.name));
  };
  for (const Node& node : graph.nodes) {
    for (const ValueId id : node.inputs) check(id, node.describe());
    for (const ValueId id : node.captures) check(id, node.describe());
  }
  for (const ValueId id : graph.outputs) check(id, "the graph's output");
}

}  // namespace

void sort_topologically(Graph& graph) {
  check_defined(graph);
  if (in_order(graph)) return;

  const size_t n_nodes = graph.nodes.size();
  std::vector<size_t> n_waiting(n_nodes, 0);
  std::vector<std::vector<size_t>> readers(n_nodes);
  for (size_t n = 0; n < n_nodes; ++n) {
    for_each_producer(graph, graph.nodes[n], [&](NodeId producer) {
      readers[static_cast<size_t>(producer)].push_back(n);
      ++n_waiting[n];
    });
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;  // smallest first: the order of the file
  for (size_t n = 0; n < n_nodes; ++n) {
    if (n_waiting[n] == 0) ready.push(n);
  }
  std::vector<size_t> order;
  order.reserve(n_nodes);
  while (!ready.empty()) {
    const size_t n = ready.top();
    ready.pop();
    order.push_back(n);
    for (const size_t reader : readers[n]) {
      if (--n_waiting[reader] == 0) ready.push(reader);
    }
  }
  if (order.size() != n_nodes) {
    for (size_t n = 0; n < n_nodes; ++n) {
      if (n_waiting[n] != 0) throw Error(Code::kBadModel, fmt::format("the graph has a cycle through {}", graph.nodes[n].describe()));
    }
  }

  std::vector<Node> sorted;
  sorted.reserve(n_nodes);
  for (const size_t n : order) {
    for (const ValueId id : graph.nodes[n].outputs) {
      if (id != kNoValue) graph.values[static_cast<size_t>(id)].producer = static_cast<NodeId>(sorted.size());
    }
    sorted.push_back(std::move(graph.nodes[n]));
  }
  graph.nodes = std::move(sorted);
}

}  // namespace kvik::onnx

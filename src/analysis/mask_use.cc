#include "analysis/mask_use.h"

#include <unordered_set>

#include "analysis/flow.h"

namespace kvik::analysis {

bool only_counts(const File& file, const Port& mask) {
  const onnx::Graph& graph = *file.model->graph;
  const Flow flow(graph);
  std::vector<FlowValue> open;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (graph.name_of(graph.inputs[i]) == mask.name) open.push_back(flow.inputs()[i]);
  }
  std::unordered_set<FlowValue> seen(open.begin(), open.end());
  bool counted = false;
  for (size_t n = 0; n < open.size(); ++n) {
    const FlowValue value = open[n];
    for (const FlowNodeId id : flow.readers(value)) {
      const FlowNode& reader = flow.node(id);
      if (reader.is("Shape") || reader.is("Size")) continue;
      if (reader.is("ReduceSum")) {
        counted = true;
        continue;
      }
      if (!reader.is("Cast") && !reader.is("Identity") && !reader.is(kMerge)) return false;
      for (const FlowValue next : reader.outputs) {
        if (next != kNone && seen.insert(next).second) open.push_back(next);
      }
    }
  }
  return counted;
}

}  // namespace kvik::analysis

#include "analysis/graph_analysis.h"

#include <algorithm>
#include <fmt/format.h>

#include "analysis/causality.h"
#include "analysis/constants.h"
#include "analysis/roles.h"
#include "analysis/state_axes.h"
#include "kvik/error.h"

namespace kvik::analysis {
namespace {

bool is_whole_loop(const FlowNode& node) {
  return node.domain == "com.microsoft" && (node.op.ends_with("BeamSearch") || node.is("GreedySearch") || node.is("Sampling"));
}

bool computes_features(const Flow& flow) {
  return std::any_of(flow.nodes().begin(), flow.nodes().end(), [&](const FlowNode& node) {
    return is_matmul(node) || node.is("Softmax") || node.is("MatMulNBits") || stateful_operator(node) != nullptr || node.is("Conv");
  });
}

Stage stage_of(const GraphFacts& facts, const File& file) {
  const bool reads = file.input_of(Role::kTokenIds) != nullptr || file.input_of(Role::kInputsEmbeds) != nullptr;
  const bool generates = file.output_of(Role::kLogits) != nullptr;
  const bool keeps = std::any_of(file.states.begin(), file.states.end(), [](const State& s) { return !s.cross; });
  const bool crosses = file.input_of(Role::kEncoderHiddenStates) != nullptr ||
                       std::any_of(file.states.begin(), file.states.end(), [](const State& s) { return s.cross && s.input >= 0; });
  if (reads && (generates || keeps)) {
    if (file.input_of(Role::kUseCacheBranch) != nullptr && keeps) return Stage::kDecoderMerged;
    return keeps || crosses || looks_causal(facts.flow, file.inputs) ? Stage::kDecoder : Stage::kEncoder;
  }
  if (file.input_of(Role::kPixelValues) != nullptr) return Stage::kVisionEncoder;
  if (file.input_of(Role::kAudioFeatures) != nullptr) return Stage::kAudioEncoder;
  if (file.input_of(Role::kTokenIds) == nullptr) return Stage::kOther;
  return computes_features(facts.flow) ? Stage::kEncoder : Stage::kEmbedding;
}

// Rows of the shortest table indexed by positions: an upper bound of the context length.
std::optional<int64_t> position_rows(const GraphFacts& facts, const File& file) {
  std::optional<int64_t> least;
  const auto note = [&](int64_t rows) {
    if (rows > 8) least = std::min(least.value_or(rows), rows);  // so few rows are not a context
  };
  for (size_t i = 0; i < file.inputs.size(); ++i) {
    const Role role = file.inputs[i].role;
    const bool counts =
        role == Role::kPositionIds || role == Role::kCachePosition || role == Role::kWriteIndices || role == Role::kKvLength;
    if (!counts || !facts.uses[i]) continue;
    for (const auto& lookup : facts.uses[i]->lookups) note(lookup.table.rows);
  }
  for (const FlowNode& node : facts.flow.nodes()) {
    if (node.is("Gather") && counts_positions(facts.flow, node.input(1))) {
      if (const auto table = looked_up_table(facts.flow, node)) note(table->rows);
    }
    if (node.is("GroupQueryAttention")) {
      if (const auto dims = node.input(7) == kNone ? std::nullopt : weight_dims(facts.flow, node.input(7)); dims && dims->size() == 2)
        note(dims->front());
    }
    if (node.is("EmbedLayerNormalization")) {
      if (const auto dims = node.input(3) == kNone ? std::nullopt : weight_dims(facts.flow, node.input(3)); dims && dims->size() == 2)
        note(dims->front());
    }
  }
  return least;
}

// Reports inputs whose role could not be found.
void report_unknown_inputs(File& file) {
  const bool generates = file.stage == Stage::kDecoder || file.stage == Stage::kDecoderMerged || file.stage == Stage::kEncoder;
  const Port* first = nullptr;
  for (Port& port : file.inputs) {
    if (port.role != Role::kUnknown) continue;
    if (!generates) {
      port.role = Role::kOther;
      continue;
    }
    if (first != nullptr && first->dtype == port.dtype && first->dims.size() == port.dims.size()) {
      throw Error(Code::kBadArgument,
                  fmt::format("{}: inputs '{}' and '{}' cannot be distinguished by the graph or by their names; give their "
                              "roles in a kvik.json next to the model: {{\"inputs\": {{\"{}\": \"...\", \"{}\": \"...\"}}}}",
                              file.path.string(), first->name, port.name, first->name, port.name));
    }
    if (first == nullptr) first = &port;
    file.problems.push_back(fmt::format("{}: the role of input '{}' ({}) is unknown; name it in a kvik.json next to the model",
                                        file.path.filename().string(), port.name, dtype_name(port.dtype)));
  }
}

void rename_outputs_of_embedding(File& file) {
  if (file.stage != Stage::kEmbedding) return;
  for (Port& port : file.outputs) {
    if (port.role == Role::kHiddenStates) port.role = Role::kEmbeddings;
  }
}

}  // namespace

File analyze_graph(std::shared_ptr<const onnx::Model> model, const std::filesystem::path& path, const Hints& hints) {
  File file;
  file.path = path;
  file.model = std::move(model);
  const onnx::Graph& graph = *file.model->graph;
  file.inputs = input_ports(graph);
  file.outputs = output_ports(graph);

  GraphFacts facts(graph);
  const auto& nodes = facts.flow.nodes();
  if (const auto loop = std::find_if(nodes.begin(), nodes.end(), is_whole_loop); loop != nodes.end()) {
    file.problems.push_back(fmt::format("{}: the graph contains the whole generation loop ({}); export the decoder without it",
                                        path.filename().string(), loop->op));
    for (Port& port : file.inputs) port.role = Role::kOther;
    for (Port& port : file.outputs) port.role = Role::kOther;
    return file;
  }
  find_tokens(facts, file, hints);
  file.states = pair_states(facts, file, hints);
  find_axes(facts, file, file.states);
  assign_roles(facts, file, hints);
  file.stage = stage_of(facts, file);
  rename_outputs_of_embedding(file);
  file.position_rows = position_rows(facts, file);
  file.quantizes_across_rows = std::any_of(nodes.begin(), nodes.end(), quantizes_dynamically);
  report_unknown_inputs(file);
  return file;
}

File analyze_graph(std::shared_ptr<const onnx::Model> model) {
  const std::filesystem::path path = model->path;
  return analyze_graph(std::move(model), path, {});
}

}  // namespace kvik::analysis

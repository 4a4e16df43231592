#include "backend/native/compile.h"

#include <algorithm>
#include <fmt/format.h>

#include "backend/native/attention/attention.h"
#include "backend/native/label/label.h"
#include "backend/native/specialize/specialize.h"
#include "backend/native/tables/tables.h"

namespace kvik::native {
namespace {

using analysis::File;
using analysis::Role;
using onnx::ValueId;

constexpr int kMostAttempts = 8;

// The output that the program is for.
std::optional<size_t> wanted_output(const File& file) {
  for (const Role role : {Role::kLogits, Role::kHiddenStates, Role::kEmbeddings}) {
    for (size_t i = 0; i < file.outputs.size(); ++i) {
      if (file.outputs[i].role == role) return i;
    }
  }
  return std::nullopt;
}

// The file was traced with one new token: it declares one, or a state that grows by one.
bool is_for_one_token(const File& file) {
  if (const analysis::Port* tokens = file.input_of(Role::kTokenIds); tokens != nullptr && tokens->has_shape) {
    if (!tokens->dims.empty() && tokens->dims.back().value == 1) return true;
  }
  for (const analysis::State& state : file.states) {
    if (state.output < 0 || state.position_axis < 0) continue;
    const analysis::Port& port = file.outputs[static_cast<size_t>(state.output)];
    const auto axis = static_cast<size_t>(state.position_axis);
    if (axis < port.dims.size() && port.dims[axis].symbol.ends_with("+ 1")) return true;
  }
  return false;
}

// If new tokens see each other both ways, the graph is not causal, or it is meant for one token at a time, which the file must declare.
std::optional<Refusal> check_direction(const CompileState& state, LabeledGraph& labeled, std::span<const FoundAttention> found) {
  const auto both_ways = std::ranges::find_if(found, [](const FoundAttention& one) { return one.new_tokens_see_all; });
  if (both_ways == found.end() || state.labels.one_token) return std::nullopt;
  if (!is_for_one_token(*state.flat->file)) {
    const AttentionSite& site = labeled.attentions[static_cast<size_t>(both_ways - found.begin())];
    return Refusal{state.node(site.node).describe(),
                   "new tokens see later ones, and the file does not declare that it takes one token at a time"};
  }
  labeled.notes.emplace_back("the file takes one token at a time: its attention, which has no mask among new tokens, is treated as causal");
  return std::nullopt;
}

Outcome<std::string> compare_past(CompileState& state, const LabeledGraph& labeled) {
  if (!state.flat->has_past) return std::string();
  if (labeled.past_not_compared && state.flat->cut_buffer) return *labeled.past_not_compared;
  if (labeled.past_not_compared) return "past and present are not compared: " + labeled.past_not_compared->sentence();
  return verify_past(state, labeled.appends);
}

Outcome<Program> attempt(const File& file, const CompileOptions& options, const Hints& hints) {
  const std::optional<size_t> output = wanted_output(file);
  if (!output) return Refusal{{}, fmt::format("{}: no output has logits, hidden states or embeddings", file.path.string())};
  // Every attempt has a graph of its own: what was shared or expanded in it rests on what was known then. Values of the file keep their
  // numbers.
  Outcome<std::shared_ptr<FlatGraph>> flat = specialize(file, options.cached_branch);
  if (!flat) return flat.stop();
  (*flat)->one_position = options.one_position;
  (*flat)->cut_buffer = options.cut_buffer;
  if (options.cut_buffer) (*flat)->buffer = 0;
  CompileState state(*flat, options);
  Outcome<LabeledGraph> labeled = label(state, state.flat->graph.outputs.at(*output), hints);
  if (!labeled) return labeled.stop();
  Outcome<std::vector<FoundAttention>> found = match_attentions(state, *labeled);
  if (!found) return found.stop();
  if (std::optional<Refusal> refusal = check_direction(state, *labeled, *found)) return *refusal;
  Outcome<std::string> past = compare_past(state, *labeled);
  if (!past) return past.stop();

  if (std::ranges::any_of(*found, [](const FoundAttention& one) { return one.whole_prompt; }))
    labeled->notes.emplace_back(
        "the graph is defined for several new tokens only without a past; with a past, each token is computed as if it were alone");
  std::optional<int64_t> limit;
  for (size_t i = 0; i < found->size(); ++i) {
    FoundAttention& one = (*found)[i];
    if (one.limit) limit = std::min(limit.value_or(*one.limit), *one.limit);
    labeled->emitter.set_attention(labeled->attentions[i].attend, std::move(one.attend), one.operands);
  }
  Outcome<Program> program = make_tables(state, std::move(labeled->emitter));
  if (!program) return program;
  program->unsupported_tokens = labeled->unsupported_tokens;
  if (limit) program->max_positions = std::min(program->max_positions.value_or(*limit), *limit);
  program->notes.insert(program->notes.end(), labeled->notes.begin(), labeled->notes.end());
  if (!past->empty()) program->notes.push_back(*past);
  return program;
}

// What was inferred for one past applies to all of the same form; the appends are checked again.
Hints spread(const File& file, Hints hints) {
  const auto alike = [&](const analysis::State& a, const analysis::State& b) {
    if (a.holds != b.holds || a.cross != b.cross || a.growth != b.growth) return false;
    const analysis::Port &x = file.inputs[static_cast<size_t>(a.input)], &y = file.inputs[static_cast<size_t>(b.input)];
    return std::ranges::equal(x.dims, y.dims, [](const auto& p, const auto& q) { return p.value == q.value; });
  };
  const std::vector<ValueId>& inputs = file.model->graph->inputs;
  const std::map<ValueId, Axes> known = hints.past_axes;
  for (const analysis::State& from : file.states) {
    if (from.input < 0) continue;
    const auto axes = known.find(inputs[static_cast<size_t>(from.input)]);
    if (axes == known.end()) continue;
    for (const analysis::State& to : file.states) {
      if (to.input >= 0 && alike(from, to)) hints.past_axes.try_emplace(inputs[static_cast<size_t>(to.input)], axes->second);
    }
  }
  return hints;
}

}  // namespace

Outcome<Program> compile_file(const File& file, const CompileOptions& options) {
  CompileOptions filled = options;
  if (filled.context == 0) filled.context = file.position_rows.value_or(0);
  const bool is_cut = filled.context > kMostPositions;
  if (is_cut) filled.context = kMostPositions;
  Hints hints;
  for (int i = 0; i < kMostAttempts; ++i) {
    Outcome<Program> program = refuse_broken([&] { return attempt(file, filled, hints); });
    if (program && is_cut) {
      program->max_positions = std::min(program->max_positions.value_or(kMostPositions), kMostPositions);
      program->notes.push_back(fmt::format("probed up to {} positions; a longer context is not used", kMostPositions));
    }
    if (program.retry() == nullptr) return program;
    hints = spread(file, program.retry()->hints);
  }
  return Refusal{{}, fmt::format("{}: no axes of its past match everything that is appended to it", file.path.string())};
}

}  // namespace kvik::native

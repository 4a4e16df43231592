#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "analysis/constants.h"
#include "analysis/port_names.h"
#include "analysis/roles.h"
#include "kvik/error.h"

namespace kvik::analysis {
namespace {

struct Candidate {
  size_t input;
  int64_t rows;  // of the largest table it indexes; 0 for an embedding operator
  bool as_many_as_logits;
  bool by_operator;

  int strength() const { return by_operator ? 3 : as_many_as_logits ? 2 : 1; }
};

// Sizes of the last axes of the outputs; one of them is the vocabulary size.
std::set<int64_t> output_widths(const GraphFacts& facts, const File& file) {
  std::set<int64_t> widths;
  for (size_t o = 0; o < file.outputs.size(); ++o) {
    if (file.outputs[o].has_shape && file.outputs[o].dims.size() > 3) continue;
    if (const auto width = last_dim(facts.flow, facts.flow.outputs()[o])) widths.insert(*width);
  }
  return widths;
}

std::vector<Candidate> candidates(const GraphFacts& facts, const File& file) {
  const std::set<int64_t> widths = output_widths(facts, file);
  std::vector<Candidate> found;
  for (size_t i = 0; i < file.inputs.size(); ++i) {
    if (!facts.uses[i] || !is_integer(file.inputs[i].dtype)) continue;
    const ControlUses& uses = *facts.uses[i];
    Candidate candidate{i, 0, false, uses.picks_tokens};
    for (const ControlUses::Lookup& lookup : uses.lookups) {
      if (!lookup.exact) continue;
      candidate.rows = std::max(candidate.rows, lookup.table.rows);
      candidate.as_many_as_logits |= widths.contains(lookup.table.rows);
    }
    if (candidate.rows > 0 || candidate.by_operator) found.push_back(candidate);
  }
  return found;
}

// Floating-point inputs of rank 3 that are not states: hidden states of an encoder, or embeddings.
std::vector<size_t> feature_inputs(const GraphFacts& facts, const File& file) {
  std::vector<size_t> found;
  for (size_t i = 0; i < file.inputs.size(); ++i) {
    const Port& port = file.inputs[i];
    if (!facts.traces[i] || port.dims.size() != 3 || state_name(port.name).looks_like_state) continue;
    const StateTrace& trace = *facts.traces[i];
    // In a state without positions all axes but the batch have a fixed size.
    const bool has_positions = std::count_if(port.dims.begin(), port.dims.end(), [](const onnx::Dim& d) { return d.value < 0; }) > 1;
    const bool kept =
        std::any_of(trace.arrivals.begin(), trace.arrivals.end(), [&](const Arrival& a) { return a.n_arithmetic == 0 || !has_positions; });
    if (!trace.use.any() && !trace.written && !kept) found.push_back(i);
  }
  return found;
}

[[noreturn]] void throw_ambiguous_tokens(const File& file, const Candidate& a, const Candidate& b) {
  const std::string &one = file.inputs[a.input].name, &two = file.inputs[b.input].name;
  throw Error(Code::kBadArgument,
              fmt::format("{}: inputs '{}' and '{}' both index a table of {} rows, so either could be the token ids; name the role in a "
                          "kvik.json next to the model: {{\"inputs\": {{\"{}\": \"token_ids\"}}}}",
                          file.path.string(), one, two, a.rows, one));
}

// The strongest candidate; ties are resolved by the size of the table, then by name, then by the config files.
int choose(const GraphFacts& facts, const File& file, int configured) {
  std::vector<Candidate> found = candidates(facts, file);
  if (found.empty()) return configured;
  int best = 0;
  for (const Candidate& c : found) best = std::max(best, c.strength());
  std::erase_if(found, [&](const Candidate& c) { return c.strength() < best; });
  if (best == 1) {
    // A graph that takes embeddings has no tokens; what it looks up are positions.
    const auto is_named = [&](const Candidate& c) { return name_hint(file.inputs[c.input].name) == NameHint::kTokens; };
    if (!feature_inputs(facts, file).empty() && std::none_of(found.begin(), found.end(), is_named)) return configured;
    int64_t most = 0;
    for (const Candidate& c : found) most = std::max(most, c.rows);
    std::erase_if(found, [&](const Candidate& c) { return c.rows < most; });
  }
  if (found.size() == 1) return static_cast<int>(found.front().input);

  std::vector<Candidate> named = found;
  std::erase_if(named, [&](const Candidate& c) { return name_hint(file.inputs[c.input].name) != NameHint::kTokens; });
  if (named.size() > 1) {  // encoder and decoder in one graph: take those of the decoder
    std::erase_if(named, [&](const Candidate& c) { return !name_parts(file.inputs[c.input].name).has("decoder"); });
  }
  if (named.size() == 1) return static_cast<int>(named.front().input);
  if (configured >= 0) return configured;
  throw_ambiguous_tokens(file, found[0], found[1]);
}

int input_with_role(const File& file, const Hints::Roles& roles, Role role) {
  for (size_t i = 0; i < file.inputs.size(); ++i) {
    const auto said = roles.find(file.inputs[i].name);
    if (said != roles.end() && said->second == role) return static_cast<int>(i);
  }
  return -1;
}

void find_features(GraphFacts& facts, File& file) {
  for (const size_t i : feature_inputs(facts, file)) {
    const NameHint hint = name_hint(file.inputs[i].name);
    const auto uses = facts.data_uses(i);
    if (uses->convolves_1d || uses->convolves_2d || hint == NameHint::kAudio || hint == NameHint::kPixels) continue;
    const bool no_tokens = facts.token_input < 0;
    if (hint == NameHint::kEmbeds || (no_tokens && hint != NameHint::kEncoderHidden)) {
      if (no_tokens) facts.token_input = static_cast<int>(i);
      file.inputs[i].role = Role::kInputsEmbeds;
    } else if (facts.source_input < 0) {
      facts.source_input = static_cast<int>(i);
      file.inputs[i].role = Role::kEncoderHiddenStates;
    }
  }
}

}  // namespace

void find_tokens(GraphFacts& facts, File& file, const Hints& hints) {
  facts.token_input = input_with_role(file, hints.inputs, Role::kTokenIds);
  if (facts.token_input < 0) facts.token_input = choose(facts, file, input_with_role(file, hints.weak_inputs, Role::kTokenIds));
  if (facts.token_input >= 0) file.inputs[static_cast<size_t>(facts.token_input)].role = Role::kTokenIds;
  facts.source_input = input_with_role(file, hints.inputs, Role::kEncoderHiddenStates);
  find_features(facts, file);
  facts.find_dependencies();
}

}  // namespace kvik::analysis

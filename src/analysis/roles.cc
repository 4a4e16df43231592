#include "analysis/roles.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "analysis/constants.h"
#include "analysis/port_names.h"
#include "kvik/error.h"

namespace kvik::analysis {
namespace {

constexpr int64_t kMostSegments = 4;  // rows of a token-type table

bool is_single(const Port& port) { return port.has_shape && (port.dims.empty() || (port.dims.size() == 1 && port.dims[0].value == 1)); }

Role role_of(State::Holds holds, bool cross, bool output) {
  switch (holds) {
    case State::Holds::kKey: return cross ? Role::kCrossKey : output ? Role::kPresentKey : Role::kPastKey;
    case State::Holds::kValue: return cross ? Role::kCrossValue : output ? Role::kPresentValue : Role::kPastValue;
    case State::Holds::kKeyValue: return output ? Role::kPresentKeyValue : Role::kPastKeyValue;
    case State::Holds::kRecurrent: return Role::kRecurrentState;
  }
  return Role::kUnknown;
}

Role role_of_hint(NameHint hint) {
  switch (hint) {
    case NameHint::kTokens: return Role::kTokenIds;
    case NameHint::kEmbeds: return Role::kInputsEmbeds;
    case NameHint::kMask: return Role::kAttentionMask;
    case NameHint::kEncoderMask: return Role::kEncoderAttentionMask;
    case NameHint::kPositions: return Role::kPositionIds;
    case NameHint::kSegments: return Role::kTokenTypeIds;
    case NameHint::kUseCache: return Role::kUseCacheBranch;
    case NameHint::kLogitsToKeep: return Role::kNumLogitsToKeep;
    case NameHint::kCachePosition: return Role::kCachePosition;
    case NameHint::kWriteIndices: return Role::kWriteIndices;
    case NameHint::kLength: return Role::kKvLength;
    case NameHint::kEncoderHidden: return Role::kEncoderHiddenStates;
    case NameHint::kAudio: return Role::kAudioFeatures;
    case NameHint::kPixels: return Role::kPixelValues;
    case NameHint::kNothing: return Role::kUnknown;
  }
  return Role::kUnknown;
}

class Assignment {
 public:
  Assignment(const GraphFacts& facts, File& file, const Hints& hints) : facts_(facts), file_(file), hints_(hints) {}

  void run() {
    states();
    for (size_t i = 0; i < file_.inputs.size(); ++i) {
      Port& port = file_.inputs[i];
      if (const Role configured = configured_role(hints_.inputs, port.name); configured != Role::kUnknown) {
        port.role = configured;
      } else if (port.role == Role::kUnknown) {
        port.role = is_float(port.dtype) ? role_of_floats(i) : role_of_integers(i);
      }
      if (port.role == Role::kUnknown) port.role = configured_role(hints_.weak_inputs, port.name);
      if (port.role == Role::kKvLength) classify_length(i);
      port.unclear_count = has_unclear_count(port);
    }
    outputs();
  }

 private:
  static Role configured_role(const Hints::Roles& roles, const std::string& name) {
    const auto configured = roles.find(name);
    return configured == roles.end() ? Role::kUnknown : configured->second;
  }

  void states() {
    for (const State& state : file_.states) {
      if (state.input >= 0) file_.inputs[static_cast<size_t>(state.input)].role = role_of(state.holds, state.cross, false);
      if (state.output >= 0) file_.outputs[static_cast<size_t>(state.output)].role = role_of(state.holds, state.cross, true);
    }
  }

  Role role_of_integers(size_t i) const {
    const Port& port = file_.inputs[i];
    if (is_single(port) && is_only_passed_on(i)) return Role::kOther;
    const NameHint hint = name_hint(port.name);
    if (!facts_.uses[i]) return role_of_hint(hint);
    const ControlUses& uses = *facts_.uses[i];
    if (const Role role = role_by_flow(port, uses, hint); role != Role::kUnknown) return role;
    const Role named = role_of_hint(hint);
    return named == Role::kTokenIds ? Role::kUnknown : named;  // the tokens were found before
  }

  // An output of the graph repeats the input, and nothing is computed from it.
  bool is_only_passed_on(size_t i) const {
    const Flow& flow = facts_.flow;
    bool is_output = false;
    std::vector<FlowValue> open = {flow.inputs()[i]};
    while (!open.empty()) {
      const FlowValue value = open.back();
      open.pop_back();
      is_output |= std::find(flow.outputs().begin(), flow.outputs().end(), value) != flow.outputs().end();
      for (const FlowNodeId reader : flow.readers(value)) {
        if (!flow.node(reader).is("Identity")) return false;
        open.push_back(flow.node(reader).output(0));
      }
    }
    return is_output;
  }

  Role role_by_flow(const Port& port, const ControlUses& uses, NameHint hint) const {
    if (uses.is_branch_condition) return Role::kUseCacheBranch;
    if (uses.picks_segments) return Role::kTokenTypeIds;
    if (uses.is_write_index) return Role::kWriteIndices;
    if (uses.is_total_length || uses.is_total_length_minus_one || uses.is_past_length) return Role::kKvLength;
    if (uses.picks_rows_of_state && port.dims.size() <= 1) return is_single(port) ? Role::kWriteIndices : Role::kCachePosition;
    if (uses.is_counted) return mask_role(port, uses, hint);
    const bool few_rows = !uses.lookups.empty() && std::all_of(uses.lookups.begin(), uses.lookups.end(),
                                                               [](const auto& l) { return l.table.rows <= kMostSegments; });
    if (few_rows) return Role::kTokenTypeIds;
    if (uses.makes_angles || !uses.lookups.empty()) return position_role(port, uses, hint);
    if (uses.meets_range && port.dims.size() > 1 && !is_single(port)) return position_role(port, uses, hint);
    if (uses.is_attention_mask || uses.is_compared || uses.reaches_softmax) {
      return is_single(port) ? Role::kKvLength : mask_role(port, uses, hint);
    }
    if (uses.bounds_range || (uses.bounds_past && is_single(port))) return Role::kKvLength;
    if (uses.bounds_slice && is_single(port)) return hint == NameHint::kLength ? Role::kKvLength : Role::kNumLogitsToKeep;
    return Role::kUnknown;
  }

  // Positions of the new tokens. A single number is the position of the first one, whatever its name is.
  Role position_role(const Port& port, const ControlUses& uses, NameHint hint) const {
    if (hint == NameHint::kSegments) return Role::kTokenTypeIds;
    // Not the generated tokens: a source.
    if (hint == NameHint::kTokens && !is_single(port)) return Role::kUnknown;
    if (is_single(port)) return Role::kKvLength;
    if (port.dims.size() == 1 && (uses.is_compared || hint == NameHint::kCachePosition)) return Role::kCachePosition;
    return Role::kPositionIds;
  }

  // The mask of the decoder's tokens or of the source.
  Role mask_role(const Port& port, const ControlUses& uses, NameHint hint) const {
    const std::string_view symbol = symbol_at(port, static_cast<int>(port.dims.size()) - 1);
    const bool reads_source =
        facts_.source_input >= 0 || std::any_of(file_.states.begin(), file_.states.end(), [](const State& s) { return s.cross; });
    if (!reads_source) return Role::kAttentionMask;
    if (const auto n_cross = static_cast<size_t>(
            std::count_if(uses.attentions.begin(), uses.attentions.end(), [&](FlowNodeId id) { return attends_to_source(id); }));
        !uses.attentions.empty() && (n_cross == 0 || n_cross == uses.attentions.size()))
      return n_cross == 0 ? Role::kAttentionMask : Role::kEncoderAttentionMask;
    if (!symbol.empty() && source_symbols().contains(symbol) && !own_symbols().contains(symbol)) return Role::kEncoderAttentionMask;
    if (!symbol.empty() && own_symbols().contains(symbol) && !source_symbols().contains(symbol)) return Role::kAttentionMask;
    return hint == NameHint::kEncoderMask ? Role::kEncoderAttentionMask : Role::kAttentionMask;
  }

  bool attends_to_source(FlowNodeId id) const {
    return facts_.attention.is_cross(facts_.flow.node(id), [&](FlowValue key) { return facts_.depends_on(key, facts_.token_input); });
  }

  std::set<std::string_view> source_symbols() const {
    std::set<std::string_view> symbols;
    if (facts_.source_input >= 0) symbols.insert(symbol_at(file_.inputs[static_cast<size_t>(facts_.source_input)], 1));
    for (const State& state : file_.states) {
      if (!state.cross) continue;
      const Port& port =
          state.input >= 0 ? file_.inputs[static_cast<size_t>(state.input)] : file_.outputs[static_cast<size_t>(state.output)];
      symbols.insert(symbol_at(port, state.position_axis));
    }
    symbols.erase(std::string_view());
    return symbols;
  }

  std::set<std::string_view> own_symbols() const {
    std::set<std::string_view> symbols;
    if (facts_.token_input >= 0) symbols.insert(symbol_at(file_.inputs[static_cast<size_t>(facts_.token_input)], 1));
    for (const State& state : file_.states) {
      if (state.cross) continue;
      if (state.output >= 0) symbols.insert(symbol_at(file_.outputs[static_cast<size_t>(state.output)], state.position_axis));
    }
    symbols.erase(std::string_view());
    return symbols;
  }

  Role role_of_floats(size_t i) const {
    const Port& port = file_.inputs[i];
    const NameHint hint = name_hint(port.name);
    const ControlUses uses = *facts_.data_uses(i);
    if (uses.convolves_2d) return Role::kPixelValues;
    if (uses.convolves_1d) return hint == NameHint::kPixels ? Role::kPixelValues : Role::kAudioFeatures;
    const bool masks = uses.reaches_softmax || uses.is_attention_mask || uses.is_compared;
    if (masks && (hint == NameHint::kMask || hint == NameHint::kEncoderMask || port.dims.size() != 3)) return mask_role(port, uses, hint);
    if (port.dims.size() >= 4) return Role::kPixelValues;
    const NameParts parts = name_parts(port.name);
    if (hint == NameHint::kAudio && (port.dims.size() == 3 || parts.has_any({"audio", "waveform", "speech", "values"})))
      return Role::kAudioFeatures;
    if (hint == NameHint::kPixels || hint == NameHint::kMask || hint == NameHint::kEncoderMask || hint == NameHint::kEmbeds)
      return role_of_hint(hint);
    return Role::kUnknown;
  }

  // A list of positions whose declared length differs from that of the tokens; it may have one element, the first position.
  bool has_unclear_count(const Port& port) const {
    if (port.role != Role::kCachePosition && port.role != Role::kPositionIds) return false;
    if (facts_.token_input < 0 || !port.has_shape || port.dims.size() != 1 || port.dims[0].value >= 0) return false;
    const Port& tokens = file_.inputs[static_cast<size_t>(facts_.token_input)];
    const std::string_view of_tokens = symbol_at(tokens, tokens.dims.size() == 1 ? 0 : 1);
    return of_tokens.empty() || of_tokens != symbol_at(port, 0);
  }

  void classify_length(size_t i) const {
    Port& port = file_.inputs[i];
    port.means_past = !name_parts(port.name).has_any({"total", "nonpad"});
    if (!facts_.uses[i]) return;
    const ControlUses& uses = *facts_.uses[i];
    port.less_one = uses.is_total_length_minus_one;
    if (uses.is_total_length || uses.is_total_length_minus_one) port.means_past = false;
    if (uses.is_past_length || uses.bounds_past) port.means_past = true;
  }

  void outputs() {
    const std::optional<int64_t> rows = token_rows();
    size_t n_open = 0;
    for (const Port& port : file_.outputs) n_open += port.role == Role::kUnknown && is_float(port.dtype) ? 1 : 0;
    const bool keeps = std::any_of(file_.states.begin(), file_.states.end(), [](const State& s) { return !s.cross; });
    bool has_logits = false;
    for (size_t o = 0; o < file_.outputs.size(); ++o) {
      Port& port = file_.outputs[o];
      if (const Role configured = configured_role(hints_.outputs, port.name); configured != Role::kUnknown) port.role = configured;
      if (port.role != Role::kUnknown) continue;
      port.role = role_of_output(o, rows, keeps && n_open == 1);
      if (port.role == Role::kUnknown) port.role = configured_role(hints_.weak_outputs, port.name);
      if (port.role == Role::kUnknown) port.role = Role::kOther;
      if (port.role == Role::kLogits && has_logits) port.role = Role::kOther;
      has_logits |= port.role == Role::kLogits;
      if (port.role == Role::kLogits) file_.vocab = last_dim(facts_.flow, facts_.flow.outputs()[o]);
    }
    if (!file_.vocab && rows) file_.vocab = rows;
  }

  std::optional<int64_t> token_rows() const {
    if (facts_.token_input < 0 || !facts_.uses[static_cast<size_t>(facts_.token_input)]) return {};
    std::optional<int64_t> most;
    for (const auto& lookup : facts_.uses[static_cast<size_t>(facts_.token_input)]->lookups) {
      if (lookup.exact) most = std::max(most.value_or(0), lookup.table.rows);
    }
    return most;
  }

  Role role_of_output(size_t o, std::optional<int64_t> rows, bool only_one) const {
    const Port& port = file_.outputs[o];
    const NameParts parts = name_parts(port.name);
    if (!is_float(port.dtype) || (port.has_shape && port.dims.size() < 2)) return Role::kUnknown;
    if (port.has_shape && port.dims.size() == 2 && facts_.token_input >= 0) {
      if (parts.has("sentence") && parts.has_any({"embedding", "embeddings"})) return Role::kSentenceEmbedding;
      if (parts.has_any({"pooler", "pooled"})) return Role::kPoolerOutput;
    }
    const auto width = last_dim(facts_.flow, facts_.flow.outputs()[o]);
    if (width && is_residual_stream(o, *width, rows)) return Role::kHiddenStates;
    const bool named_hidden =
        parts.has_any({"hidden", "features", "embeds", "embeddings"}) || (parts.has("encoder") && parts.has_any({"outputs", "output"}));
    if (parts.has("logits")) return Role::kLogits;
    if (width && rows && *width == *rows && !named_hidden) return Role::kLogits;
    if (only_one && !named_hidden) return Role::kLogits;
    const bool reads_something = facts_.token_input >= 0 || file_.input_of(Role::kPixelValues) || file_.input_of(Role::kAudioFeatures);
    if (named_hidden || (reads_something && (port.dims.size() == 3 || !port.has_shape))) return Role::kHiddenStates;
    return Role::kUnknown;
  }

  // As wide as the embeddings, not as the vocabulary, and not a product with weights: the graph has no head.
  bool is_residual_stream(size_t o, int64_t width, std::optional<int64_t> rows) const {
    if (rows && width == *rows) return false;
    return width == embedding_width() && !is_product_with_weights(facts_.flow, facts_.flow.outputs()[o]);
  }

  int64_t embedding_width() const {
    if (facts_.token_input < 0) return -1;
    const auto i = static_cast<size_t>(facts_.token_input);
    const Port& port = file_.inputs[i];
    if (port.role == Role::kInputsEmbeds) return size_at(port, static_cast<int>(port.dims.size()) - 1);
    if (!facts_.uses[i]) return -1;
    for (const auto& lookup : facts_.uses[i]->lookups) {
      if (lookup.exact && lookup.table.width > 0) return lookup.table.width;
    }
    return -1;
  }

  const GraphFacts& facts_;
  File& file_;
  const Hints& hints_;
};

}  // namespace

void assign_roles(const GraphFacts& facts, File& file, const Hints& hints) { Assignment(facts, file, hints).run(); }

}  // namespace kvik::analysis

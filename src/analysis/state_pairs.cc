#include "analysis/state_pairs.h"

#include <algorithm>
#include <unordered_map>

#include "analysis/port_names.h"

namespace kvik::analysis {
namespace {

bool is_cache_number(DType dtype) { return is_float(dtype) || dtype == DType::kI8 || dtype == DType::kU8 || dtype == DType::kUndefined; }

// At most one axis (the batch) has no fixed size, as in recurrent states.
bool has_no_positions(const Port& port) {
  const auto unknown = std::count_if(port.dims.begin(), port.dims.end(), [](const onnx::Dim& d) { return d.value < 0; });
  return port.has_shape && port.dims.size() >= 2 && unknown <= 1;
}

bool same_axis(const Port& a, const Port& b, int axis) {
  if (size_at(a, axis) >= 0) return size_at(a, axis) == size_at(b, axis);
  return !symbol_at(a, axis).empty() && symbol_at(a, axis) == symbol_at(b, axis);
}

bool same_axes(const Port& a, const Port& b) {
  for (int axis = 0; axis < static_cast<int>(a.dims.size()); ++axis) {
    if (size_at(a, axis) != size_at(b, axis)) return false;
  }
  return a.dims.size() == b.dims.size();
}

class Pairing {
 public:
  Pairing(const GraphFacts& facts, const File& file, const Hints& hints)
      : facts_(facts), file_(file), hints_(hints), output_of_(file.inputs.size(), -1), input_of_(file.outputs.size(), -1) {
    for (size_t i = 0; i < file.inputs.size(); ++i) names_in_.push_back(state_name(file.inputs[i].name));
    for (size_t o = 0; o < file.outputs.size(); ++o) names_out_.push_back(state_name(file.outputs[o].name));
    for (size_t i = 0; i < file.inputs.size(); ++i) is_state_.push_back(looks_like_state(i));
  }

  std::vector<State> run() {
    by_flow();
    by_fresh_rows();
    by_name();
    by_order();
    std::vector<State> states;
    for (size_t i = 0; i < file_.inputs.size(); ++i) {
      if (is_state_[i]) states.push_back(state_of_input(i));
    }
    for (size_t o = 0; o < file_.outputs.size(); ++o) {
      if (input_of_[o] < 0 && is_made_here(o)) states.push_back(state_of_output(o));
    }
    return states;
  }

 private:
  struct Candidate {
    int score;
    size_t input;
    Arrival arrival;
  };

  const StateTrace* trace(size_t input) const { return facts_.traces[input] ? &*facts_.traces[input] : nullptr; }

  bool looks_like_state(size_t i) const {
    if (const auto said = hints_.inputs.find(file_.inputs[i].name); said != hints_.inputs.end()) return is_state_role(said->second);
    const StateTrace* t = trace(i);
    if (t == nullptr) return false;
    if (t->use.any() || names_in_[i].looks_like_state) return true;
    if (name_hint(file_.inputs[i].name) == NameHint::kEmbeds) return false;
    return std::any_of(t->arrivals.begin(), t->arrivals.end(), [&](const Arrival& a) { return acceptable(i, a); });
  }

  // Whether an arrival can be the input of the next step.
  bool acceptable(size_t i, const Arrival& a) const {
    const Port& in = file_.inputs[i];
    const Port& out = file_.outputs[static_cast<size_t>(a.output)];
    if (!is_cache_number(out.dtype)) return false;
    if (in.has_shape && out.has_shape && in.dims.size() != out.dims.size()) return false;
    if (a.by != nullptr && a.n_arithmetic == 0) return true;
    const StateTrace* t = trace(i);
    const bool attended = t->use.as_key || t->use.as_value;
    const bool without_positions = has_no_positions(in) && has_no_positions(out);
    if (a.n_arithmetic > 0) return attended ? a.grown || a.written || (without_positions && same_axes(in, out)) : without_positions;
    return attended || names_in_[i].looks_like_state;
  }

  void take(size_t input, size_t output, const Arrival* arrival) {
    output_of_[input] = static_cast<int>(output);
    input_of_[output] = static_cast<int>(input);
    is_state_[input] = true;
    if (arrival != nullptr) arrivals_[input] = *arrival;
  }

  void by_flow() {
    std::vector<Candidate> candidates;
    for (size_t i = 0; i < file_.inputs.size(); ++i) {
      if (!is_state_[i] || trace(i) == nullptr) continue;
      for (const Arrival& a : trace(i)->arrivals) {
        if (!acceptable(i, a)) continue;
        const bool named_alike = names_in_[i].same_state(names_out_[static_cast<size_t>(a.output)]);
        candidates.push_back({a.n_arithmetic * 4 + (a.grown || a.written ? 0 : 2) + (named_alike ? 0 : 1), i, a});
      }
    }
    std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) { return a.score < b.score; });
    for (const Candidate& c : candidates) {
      const auto output = static_cast<size_t>(c.arrival.output);
      if (output_of_[c.input] < 0 && input_of_[output] < 0) take(c.input, output, &c.arrival);
    }
  }

  // Delta caches: an output is the value that is appended to a past inside the graph.
  void by_fresh_rows() {
    std::unordered_map<FlowValue, size_t> outputs;
    for (size_t o = 0; o < file_.outputs.size(); ++o) {
      if (input_of_[o] < 0 && is_cache_number(file_.outputs[o].dtype)) outputs.emplace(root_of(facts_.flow, facts_.flow.outputs()[o]), o);
    }
    for (size_t i = 0; i < file_.inputs.size(); ++i) {
      if (!is_state_[i] || output_of_[i] >= 0 || trace(i) == nullptr) continue;
      for (const FlowValue fresh : trace(i)->fresh) {
        const auto found = outputs.find(root_of(facts_.flow, fresh));
        if (found == outputs.end() || input_of_[found->second] >= 0) continue;
        take(i, found->second, nullptr);
        delta_.push_back(i);
        break;
      }
    }
  }

  bool open_output(size_t o) const { return input_of_[o] < 0 && is_cache_number(file_.outputs[o].dtype); }

  void by_name() {
    for (size_t i = 0; i < file_.inputs.size(); ++i) {
      if (!is_state_[i] || output_of_[i] >= 0 || names_in_[i].kind == NameKind::kNothing) continue;
      for (size_t o = 0; o < file_.outputs.size(); ++o) {
        if (!open_output(o) || !names_in_[i].same_state(names_out_[o]) || !names_out_[o].looks_like_state) continue;
        take(i, o, nullptr);
        break;
      }
    }
  }

  // Pairs the rest in order, if there are as many inputs as outputs and their ranks agree.
  void by_order() {
    std::vector<size_t> ins, outs;
    for (size_t i = 0; i < file_.inputs.size(); ++i) {
      if (is_state_[i] && output_of_[i] < 0) ins.push_back(i);
    }
    for (size_t o = 0; o < file_.outputs.size(); ++o) {
      if (open_output(o) && is_made_here(o)) outs.push_back(o);
    }
    if (ins.empty() || ins.size() != outs.size()) return;
    for (size_t n = 0; n < ins.size(); ++n) {
      const Port& in = file_.inputs[ins[n]];
      const Port& out = file_.outputs[outs[n]];
      if (in.has_shape && out.has_shape && in.dims.size() != out.dims.size()) return;
    }
    for (size_t n = 0; n < ins.size(); ++n) take(ins[n], outs[n], nullptr);
  }

  // An output that attention reads as keys or values, or that has the name of a state.
  bool is_made_here(size_t o) const {
    const Port& port = file_.outputs[o];
    if (const auto said = hints_.outputs.find(port.name); said != hints_.outputs.end()) return is_state_role(said->second);
    if (!is_cache_number(port.dtype) || (port.has_shape && port.dims.size() < 3)) return false;
    return names_out_[o].looks_like_state || use_of_output(o).any();
  }

  AttentionUse use_of_output(size_t o) const {
    AttentionUse use;
    std::vector<FlowValue> open = {facts_.flow.outputs()[o]};
    for (size_t n = 0; n < open.size() && n < 8; ++n) {
      const FlowValue root = root_of(facts_.flow, open[n]);
      const FlowNode* made_by = facts_.flow.producer(root);
      if (made_by == nullptr) continue;  // a weight, or an input passed through
      if (made_by->is(kMerge)) {
        open.insert(open.end(), made_by->inputs.begin(), made_by->inputs.end());
        continue;
      }
      if (const StatefulOperator* op = stateful_operator(*made_by)) note_made_by(*made_by, *op, root, use);
      const AttentionUse more = facts_.attention.use_of(root);
      use.as_key |= more.as_key;
      use.as_value |= more.as_value;
      if (more.node != nullptr) use.node = more.node;
    }
    return use;
  }

  // The value that an output's rows come from. An attention operator that returns its keys also reads queries, on which they do not depend.
  FlowValue rows_of_output(size_t o) const {
    const FlowValue value = facts_.flow.outputs()[o];
    const FlowValue root = root_of(facts_.flow, value);
    const FlowNode* made_by = facts_.flow.producer(root);
    const StatefulOperator* op = made_by == nullptr ? nullptr : stateful_operator(*made_by);
    if (op == nullptr) return value;
    for (const StateSlot& state : op->states) {
      const bool is_key = state.holds == StateSlot::Holds::kKey, is_value = state.holds == StateSlot::Holds::kValue;
      if (made_by->output(static_cast<size_t>(state.output)) != root || (!is_key && !is_value)) continue;
      const int given = is_key ? op->key_input : op->value_input;
      const bool has_past = state.input >= 0 && made_by->input(static_cast<size_t>(state.input)) != kNone;
      if (given >= 0 && !has_past && made_by->input(static_cast<size_t>(given)) != kNone) return made_by->input(static_cast<size_t>(given));
    }
    return value;
  }

  static void note_made_by(const FlowNode& node, const StatefulOperator& op, FlowValue value, AttentionUse& use) {
    for (const StateSlot& state : op.states) {
      if (node.output(static_cast<size_t>(state.output)) != value) continue;
      use.node = &node;
      use.as_key |= state.holds == StateSlot::Holds::kKey || state.holds == StateSlot::Holds::kKeyValue;
      use.as_value |= state.holds == StateSlot::Holds::kValue || state.holds == StateSlot::Holds::kKeyValue;
      use.as_recurrent |= state.holds == StateSlot::Holds::kRecurrent;
      use.both_in_one |= state.holds == StateSlot::Holds::kKeyValue;
    }
  }

  static State::Holds held(const AttentionUse& use, const StateName& name, bool taken_apart) {
    if (use.as_key && use.as_value) {
      if (taken_apart || use.both_in_one || name.kind == NameKind::kKeyValue) return State::Holds::kKeyValue;
      return name.kind == NameKind::kValue ? State::Holds::kValue : State::Holds::kKey;  // one latent tensor used as both
    }
    if (use.as_key) return State::Holds::kKey;
    if (use.as_value) return State::Holds::kValue;
    if (name.kind == NameKind::kKey) return State::Holds::kKey;
    if (name.kind == NameKind::kValue) return State::Holds::kValue;
    if (name.kind == NameKind::kKeyValue) return State::Holds::kKeyValue;
    return State::Holds::kRecurrent;
  }

  static bool was_taken_apart(const StateTrace& t) {
    const auto only = [&](bool key) {
      return std::any_of(t.parts.begin(), t.parts.end(),
                         [&](const StateTrace::Part& p) { return key ? p.as_key && !p.as_value : p.as_value && !p.as_key; });
    };
    return only(true) && only(false);
  }

  State state_of_input(size_t i) const {
    static const StateTrace kNothing;
    const StateTrace& t = trace(i) == nullptr ? kNothing : *trace(i);
    const Port& in = file_.inputs[i];
    State state;
    state.input = static_cast<int>(i);
    state.output = output_of_[i];
    state.dtype = state.output_dtype = in.dtype;
    state.layer = names_in_[i].layer.value_or(-1);
    state.holds = held(t.use, names_in_[i], was_taken_apart(t));
    if (state.output >= 0) state.output_dtype = file_.outputs[static_cast<size_t>(state.output)].dtype;
    const auto arrival = arrivals_.find(i);
    if (std::find(delta_.begin(), delta_.end(), i) != delta_.end()) {
      state.growth = Growth::kDelta;
    } else if (arrival != arrivals_.end()) {
      state.growth = growth_of(state, arrival->second, t);
    } else {
      const Growth alone = state.holds == State::Holds::kRecurrent ? Growth::kRecurrent : Growth::kConstant;
      state.growth = state.output >= 0 ? growth_by_shape(state, i) : alone;
    }
    if (state.growth == Growth::kFixed && arrival != arrivals_.end() && arrival->second.grown) {
      state.window = keeps_a_window(*arrival->second.by);
      state.newest_last = stateful_operator(*arrival->second.by) == nullptr;
    }
    if (state.growth == Growth::kRecurrent) state.holds = State::Holds::kRecurrent;
    if (state.growth == Growth::kConstant) state.cross = state.output >= 0 || !t.grown;
    return state;
  }

  Growth growth_of(const State& state, const Arrival& a, const StateTrace& t) const {
    const bool attended = t.use.as_key || t.use.as_value || state.holds != State::Holds::kRecurrent;
    const Port& in = file_.inputs[static_cast<size_t>(state.input)];
    const Port& out = file_.outputs[static_cast<size_t>(state.output)];
    if (t.use.as_recurrent) return Growth::kRecurrent;
    if (a.grown) {
      const bool by_operator = a.by != nullptr && stateful_operator(*a.by) != nullptr;
      const bool same = same_axis(in, out, a.grown_axis);
      if (by_operator) return same || keeps_a_window(*a.by) ? Growth::kFixed : Growth::kGrowing;
      // Equal sizes: old positions were dropped before new ones were appended.
      if (!a.cut) return same && size_at(in, a.grown_axis) >= 0 ? Growth::kFixed : Growth::kGrowing;
      if (!attended || (has_no_positions(in) && names_in_[static_cast<size_t>(state.input)].kind == NameKind::kRecurrent))
        return Growth::kRecurrent;
      if (a.only_new || (has_as_many_as_tokens(out, a.grown_axis) && !has_as_many_as_tokens(in, a.grown_axis))) return Growth::kDelta;
      return same ? Growth::kFixed : Growth::kGrowing;
    }
    // A sum of kept and new positions also writes.
    if (a.written || a.n_arithmetic > 0) return attended ? Growth::kFixed : Growth::kRecurrent;
    return attended ? Growth::kConstant : Growth::kRecurrent;
  }

  // Whether an axis is declared with the length of the new tokens.
  bool has_as_many_as_tokens(const Port& port, int axis) const {
    if (facts_.token_input < 0) return false;
    const Port& tokens = file_.inputs[static_cast<size_t>(facts_.token_input)];
    const int64_t size = size_at(tokens, 1);
    return size >= 0 ? size == size_at(port, axis) : !symbol_at(tokens, 1).empty() && symbol_at(tokens, 1) == symbol_at(port, axis);
  }

  Growth growth_by_shape(const State& state, size_t i) const {
    const Port& in = file_.inputs[i];
    const Port& out = file_.outputs[static_cast<size_t>(state.output)];
    if (state.holds == State::Holds::kRecurrent) return Growth::kRecurrent;
    if (names_in_[i].cross) return Growth::kConstant;
    const StateTrace* t = trace(i);
    if (t != nullptr && t->grown) return Growth::kDelta;  // appended inside but not returned: the output must be the new rows
    for (int axis = 0; axis < static_cast<int>(in.dims.size()); ++axis) {
      if (same_axis(in, out, axis) || size_at(in, axis) >= 0) continue;
      const std::string_view after = symbol_at(out, axis);
      const bool longer = after.find('+') != std::string_view::npos || after.find("total") != std::string_view::npos;
      if (!after.empty() && !symbol_at(in, axis).empty() && longer) return Growth::kGrowing;
    }
    return has_no_positions(in) && has_no_positions(out) ? Growth::kFixed : Growth::kConstant;
  }

  State state_of_output(size_t o) const {
    const Port& out = file_.outputs[o];
    const AttentionUse use = use_of_output(o);
    State state;
    state.output = static_cast<int>(o);
    state.dtype = state.output_dtype = out.dtype;
    state.layer = names_out_[o].layer.value_or(-1);
    state.holds = held(use, names_out_[o], false);
    const FlowValue rows = rows_of_output(o);
    const bool from_source =
        facts_.source_input >= 0 && facts_.depends_on(rows, facts_.source_input) && !facts_.depends_on(rows, facts_.token_input);
    state.cross = from_source || (!use.any() && names_out_[o].cross);
    state.growth = state.cross ? Growth::kConstant : state.holds == State::Holds::kRecurrent ? Growth::kRecurrent : Growth::kGrowing;
    return state;
  }

  const GraphFacts& facts_;
  const File& file_;
  const Hints& hints_;
  std::vector<StateName> names_in_, names_out_;
  std::vector<bool> is_state_;
  std::vector<int> output_of_, input_of_;
  std::unordered_map<size_t, Arrival> arrivals_;
  std::vector<size_t> delta_;
};

}  // namespace

std::vector<State> pair_states(const GraphFacts& facts, const File& file, const Hints& hints) { return Pairing(facts, file, hints).run(); }

}  // namespace kvik::analysis

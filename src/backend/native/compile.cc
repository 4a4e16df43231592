#include "backend/native/compile.h"

#include <fmt/format.h>

#include "backend/native/label/graph_labeler.h"
#include "backend/native/specialize/specialize.h"

namespace kvik::native {
namespace {

using analysis::File;
using analysis::Role;
using onnx::ValueId;

constexpr int kMostAttempts = 8;

struct CompileState {
  Labels labels;
  Constants constants;
  ProbeBank probes;

  explicit CompileState(const FlatGraph& flat) : constants(flat), probes(labels, constants) { labels.flat = &flat; }
};

// The output that the program is for.
int wanted_output(const File& file) {
  for (const Role role : {Role::kLogits, Role::kHiddenStates, Role::kEmbeddings}) {
    for (size_t i = 0; i < file.outputs.size(); ++i) {
      if (file.outputs[i].role == role) return static_cast<int>(i);
    }
  }
  throw Refusal(fmt::format("{}: no output gives logits, hidden states or embeddings", file.path.string()));
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

class Attempt {
 public:
  Attempt(std::shared_ptr<FlatGraph> flat, const CompileOptions& options, const std::map<ValueId, Axes>& past_axes, bool keys_on_left)
      : flat_(std::move(flat)),
        state_(new_state(*flat_, options)),
        emitter_(flat_, state_->labels),
        labeler_(flat_, state_->labels, {state_->labels, state_->probes, state_->constants, options.context, options.beyond}, emitter_) {
    labeler_.past_axes = past_axes;
    state_->labels.keys_on_left = keys_on_left;
  }

  const GraphLabeler& labeler() const { return labeler_; }

  Program run() {
    Program& program = emitter_.program();
    const ValueId output = flat_->graph.outputs.at(static_cast<size_t>(wanted_output(*flat_->file)));
    labeler_.reach(output);
    reach_registers();
    if (state_->labels[output].kind != Label::Kind::kRow)
      throw Refusal(fmt::format("the output '{}' does not depend on rows", flat_->graph.name_of(output)));
    program.output = emitter_.row(output);
    give_inputs();
    program.one_token = state_->labels.one_token;
    check_direction();
    if (flat_->has_past) labeler_.notes.push_back(check_pairs());
    Program result = emitter_.finish(labeler_.attention());
    result.forbidden_tokens = labeler_.forbidden_tokens;
    if (labeler_.limit) result.max_positions = std::min(result.max_positions.value_or(*labeler_.limit), *labeler_.limit);
    std::erase(labeler_.notes, "");
    result.notes.insert(result.notes.end(), labeler_.notes.begin(), labeler_.notes.end());
    return result;
  }

 private:
  static std::unique_ptr<CompileState> new_state(const FlatGraph& flat, const CompileOptions& options) {
    auto state = std::make_unique<CompileState>(flat);
    state->labels.one_token = options.one_token;
    state->labels.one_sequence = options.one_sequence;
    return state;
  }

  bool is_register(const FlatGraph::Input& input) const {
    return input.state != nullptr && input.state->growth == analysis::Growth::kRecurrent && input.state->output >= 0;
  }

  void reach_registers() {
    for (const FlatGraph::Input& input : flat_->inputs) {
      if (!is_register(input) || state_->labels[input.value].kind != Label::Kind::kRow) continue;
      if (!state_->labels.one_token)
        throw Refusal(fmt::format("'{}' is a recurrent state: rows of a sequence follow from each other", input.port->name));
      const ValueId after = flat_->graph.outputs.at(static_cast<size_t>(input.state->output));
      labeler_.reach(after);
      if (state_->labels[after].kind != Label::Kind::kRow)
        throw Refusal(fmt::format("the state '{}' does not depend on rows", flat_->graph.name_of(after)));
      emitter_.program().registers.push_back({emitter_.row(input.value), emitter_.row(after)});
    }
  }

  void give_inputs() {
    Program& program = emitter_.program();
    for (const FlatGraph::Input& input : flat_->inputs) {
      const Label& label = state_->labels[input.value];
      if (input.port == nullptr || label.kind != Label::Kind::kRow) continue;
      const RowId row = emitter_.row(input.value);
      if (input.port->role == Role::kTokenIds) give_once(program.token, row, *input.port);
      if (input.port->role == Role::kInputsEmbeds) give_once(program.embedding, row, *input.port);
      if (!label.on_source) continue;
      const int port = static_cast<int>(input.port - flat_->file->inputs.data());
      program.source_inputs.push_back({row, port, input.state != nullptr ? input.state->position_axis : source_axis(label)});
    }
  }

  // Where new tokens see each other both ways, the graph is not causal, or it is meant for one token at a time: the file must say so.
  void check_direction() {
    if (labeler_.for_one_token.empty() || state_->labels.one_token) return;
    if (!is_for_one_token(*flat_->file))
      throw Refusal(fmt::format("{}: new tokens see those after them, and nothing says that the file is for one token at a time",
                                labeler_.for_one_token.front()));
    labeler_.note_once("the file is for one token at a time: its attention, which has no mask among new tokens, is taken as causal");
  }

  static void give_once(RowId& slot, RowId row, const analysis::Port& port) {
    if (slot != kNoRow) throw Refusal(fmt::format("'{}' is a second input of tokens", port.name));
    slot = row;
  }

  static int source_axis(const Label& label) {
    for (size_t i = 0; i < label.axes.size(); ++i) {
      if (holds(label.axes[i], Symbol::kSource)) return static_cast<int>(i);
    }
    return -1;
  }

  // The other outputs are of no interest to a runtime that owns the cache; that they pair with the inputs is.
  std::string check_pairs() {
    std::string failure;
    for (const ValueId output : flat_->graph.outputs) {
      try {
        labeler_.reach(output);
      } catch (const Error& error) { failure = error.what(); }
    }
    if (!failure.empty()) return "past and present are not compared: " + failure;
    return verify_past(labeler_.attention(), labeler_.appends);
  }

  std::shared_ptr<FlatGraph> flat_;
  std::unique_ptr<CompileState> state_;
  Emitter emitter_;
  GraphLabeler labeler_;
};

// What was hints of one past holds for all that look alike; the appends check it again.
void spread(const FlatGraph& flat, std::map<ValueId, Axes>& past_axes) {
  const auto alike = [](const FlatGraph::Input& a, const FlatGraph::Input& b) {
    if (a.state == nullptr || b.state == nullptr || a.state->holds != b.state->holds || a.state->cross != b.state->cross) return false;
    if (a.port->dims.size() != b.port->dims.size() || a.state->growth != b.state->growth) return false;
    for (size_t i = 0; i < a.port->dims.size(); ++i) {
      if (a.port->dims[i].value != b.port->dims[i].value) return false;
    }
    return true;
  };
  const std::map<ValueId, Axes> known = past_axes;
  for (const auto& [value, axes] : known) {
    const FlatGraph::Input* from = flat.input_of(value);
    for (const FlatGraph::Input& input : flat.inputs) {
      if (from != nullptr && input.port != nullptr && alike(*from, input)) past_axes.try_emplace(input.value, axes);
    }
  }
}

// What one attempt found out and the next one starts from.
struct Hints {
  std::map<ValueId, Axes> past_axes;
  bool keys_on_left = false;
};

// Every attempt has a graph of its own: what was shared or spelled out in it rests on what was known then. Values of the file keep their
// numbers.
Program compile_learning(const File& file, const CompileOptions& options) {
  Hints hints;
  for (int i = 0;; ++i) {
    const std::shared_ptr<FlatGraph> flat = specialize(file, options.cached_branch);
    Attempt attempt(flat, options, hints.past_axes, hints.keys_on_left);
    const GraphLabeler& labeler = attempt.labeler();
    const auto again = [&] {
      const bool turned = labeler.keys_on_left && !hints.keys_on_left;
      hints.keys_on_left = hints.keys_on_left || turned;
      hints.past_axes = labeler.past_axes;
      spread(*flat, hints.past_axes);
      return (turned || labeler.learned_past) && i < kMostAttempts;
    };
    try {
      Program program = attempt.run();
      if (!again()) return program;
    } catch (const Error&) {
      if (!again()) throw;
    }
  }
}

}  // namespace

Program compile_file(const File& file, const CompileOptions& options) {
  CompileOptions filled = options;
  if (filled.context == 0) filled.context = file.position_rows.value_or(0);
  try {
    return compile_learning(file, filled);
  } catch (const Refusal&) { throw; } catch (const Error& error) {
    // What the evaluator does not know or will not compute may still run elsewhere.
    if (error.code() == Code::kUnsupported || error.code() == Code::kTooLarge) throw Refusal(error.what());
    throw;
  }
}

}  // namespace kvik::native

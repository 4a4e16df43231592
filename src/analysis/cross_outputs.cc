#include "analysis/cross_outputs.h"

#include <algorithm>
#include <fmt/format.h>

#include "analysis/port_names.h"

namespace kvik::analysis {
namespace {

bool reads_as_cross(const State& state) { return state.cross && state.input >= 0 && state.output < 0; }

bool makes(const File& file, const State& wanted) {
  return std::any_of(file.states.begin(), file.states.end(), [&](const State& state) {
    return state.cross && state.output >= 0 && state.layer == wanted.layer && state.holds == wanted.holds;
  });
}

bool could_be(const Port& output, const Port& input) {
  const bool is_free = output.role == Role::kOther || output.role == Role::kUnknown || output.role == Role::kHiddenStates;
  if (!is_free || output.dtype != input.dtype) return false;
  if (!output.has_shape || !input.has_shape) return true;
  if (output.dims.size() != input.dims.size()) return false;
  for (size_t i = 0; i < input.dims.size(); ++i) {
    if (output.dims[i].value >= 0 && input.dims[i].value >= 0 && output.dims[i].value != input.dims[i].value) return false;
  }
  return true;
}

class Matching {
 public:
  Matching(File& encoder, const File& decoder) : encoder_(encoder), decoder_(decoder) {
    for (const State& state : decoder.states) {
      if (reads_as_cross(state)) wanted_.push_back(&state);
    }
  }

  void run() {
    const auto same_name = [](const Port& out, const Port& in) { return out.name == in.name; };
    const auto alike = [](const Port& out, const Port& in) {
      const StateName a = state_name(out.name), b = state_name(in.name);
      return a.kind != NameKind::kNothing && a.kind == b.kind && a.layer == b.layer;
    };
    match(same_name);
    match(alike);
    if (n_free() == wanted_.size()) match([](const Port&, const Port&) { return true; });
  }

 private:
  const Port& input_of(const State& state) const { return decoder_.inputs[static_cast<size_t>(state.input)]; }

  // Outputs that could still be one of those that are wanted.
  size_t n_free() const {
    return static_cast<size_t>(std::count_if(encoder_.outputs.begin(), encoder_.outputs.end(), [&](const Port& output) {
      return std::any_of(wanted_.begin(), wanted_.end(), [&](const State* state) { return could_be(output, input_of(*state)); });
    }));
  }

  template <class Fits>
  void match(const Fits& fits) {
    std::erase_if(wanted_, [&](const State* state) {
      for (size_t o = 0; o < encoder_.outputs.size(); ++o) {
        Port& output = encoder_.outputs[o];
        if (!could_be(output, input_of(*state)) || !fits(output, input_of(*state))) continue;
        output.role = state->holds == State::Holds::kValue ? Role::kCrossValue : Role::kCrossKey;
        State made = *state;
        made.input = -1;
        made.output = static_cast<int>(o);
        encoder_.states.push_back(made);
        return true;
      }
      return false;
    });
  }

  File& encoder_;
  const File& decoder_;
  std::vector<const State*> wanted_;
};

}  // namespace

void find_cross_outputs(std::vector<File>& files) {
  for (const File& decoder : files) {
    const bool made = std::any_of(decoder.states.begin(), decoder.states.end(), [&](const State& state) {
      return reads_as_cross(state) && std::any_of(files.begin(), files.end(), [&](const File& file) { return makes(file, state); });
    });
    const bool reads = std::any_of(decoder.states.begin(), decoder.states.end(), reads_as_cross);
    if (!reads || made || decoder.input_of(Role::kEncoderHiddenStates) != nullptr) continue;
    for (File& encoder : files) {
      const bool encodes =
          encoder.stage == Stage::kEncoder || encoder.stage == Stage::kAudioEncoder || encoder.stage == Stage::kVisionEncoder;
      if (&encoder != &decoder && encodes) Matching(encoder, decoder).run();
    }
  }
}

}  // namespace kvik::analysis

#include "backend/graph/slots.h"

#include <fmt/format.h>

#include "kvik/error.h"

namespace kvik::backend {
namespace {

using analysis::File;
using analysis::State;

bool same_state(const State& a, const State& b) { return a.holds == b.holds && a.cross == b.cross && a.layer == b.layer; }

// A layer may have several states of one kind (convolution and recurrence); their order is the same in every file.
size_t place_among_alike(const File& file, const State& state) {
  size_t place = 0;
  for (const State* other = file.states.data(); other != &state; ++other) place += same_state(*other, state) ? 1 : 0;
  return place;
}

const State* find_state(const File* file, const State& wanted, size_t place) {
  if (file == nullptr) return nullptr;
  for (const State& state : file->states) {
    if (same_state(state, wanted) && place-- == 0) return &state;
  }
  return nullptr;
}

[[noreturn]] void cannot_feed_back(const File& file, const State& state) {
  throw Error(Code::kBadModel,
              fmt::format("{}: '{}' is a cache input without a matching output; export the model with its cache as outputs",
                          file.path.string(), file.inputs[static_cast<size_t>(state.input)].name));
}

}  // namespace

Slots find_slots(const analysis::Signature& signature) {
  Slots slots;
  const File* first = signature.first_step();
  const File* later = signature.later_step();
  const File* encoder = signature.encoder();
  if (later == nullptr) return slots;
  for (const State& state : later->states) {
    if (state.input < 0) continue;  // computed but never read
    const size_t place = place_among_alike(*later, state);
    Slot slot{.layout = state, .later_input = state.input, .later_output = state.output};
    if (const State* start = find_state(first, state, place)) {
      slot.first_input = start->input;
      slot.first_output = start->output;
    }
    if (const State* made = find_state(encoder, state, place)) slot.encoder_output = made->output;
    const bool written =
        state.cross ? slot.first_output >= 0 || slot.encoder_output >= 0 : slot.later_output >= 0 && slot.first_output >= 0;
    if (!written) cannot_feed_back(*later, state);
    (state.cross ? slots.cross : slots.self).push_back(slot);
  }
  return slots;
}

}  // namespace kvik::backend

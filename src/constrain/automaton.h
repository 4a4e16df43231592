#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "constrain/grammar.h"

namespace kvik::constrain {

inline constexpr uint32_t kNoState = UINT32_MAX;

// A pushdown automaton over bytes. Each rule of the grammar is a finite automaton; some of its transitions call another rule and continue
// when that one accepts. An accepting state can be reached from every state. Immutable.
struct Automaton {
  struct Edge {
    uint8_t first, last;  // bytes
    uint32_t to;
  };
  struct Call {
    uint32_t start;  // of the rule
    uint32_t back;   // the state to return to; kNoState: a tail call, which returns from this rule too
  };

  uint32_t start = 0;
  std::vector<uint32_t> first_edge, first_call;  // [n_states + 1]
  std::vector<Edge> edges;                       // of a state: sorted; they may overlap
  std::vector<Call> calls;
  std::vector<uint8_t> accepting;  // [n_states]: whether the rule may end here

  // Bytes that all edges treat alike have the same class.
  std::array<uint8_t, 256> class_of{};
  std::vector<uint8_t> class_bytes;  // one byte of each class

  size_t n_states() const { return accepting.size(); }
  size_t n_classes() const { return class_bytes.size(); }
};

// Throws Error(kBadArgument) if a rule is left-recursive, if nothing can match, or past a limit. `what` names the constraint in messages.
Automaton compile(const Grammar& grammar, const char* what);

}  // namespace kvik::constrain

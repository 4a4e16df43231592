#pragma once

#include <cstddef>

// Constraints may come from anyone who can send a request, so their cost is limited; exceeding a limit is an error.
namespace kvik::constrain {

inline constexpr size_t kMostTextBytes = size_t{1} << 20;  // of a schema, pattern or grammar
inline constexpr int kMostNesting = 128;                   // of groups, arrays and objects in it
inline constexpr int kMostRepetitions = 100'000;           // of one part
inline constexpr size_t kMostNodes = 400'000;              // of a grammar
inline constexpr size_t kMostRules = 100'000;
inline constexpr size_t kMostStates = 300'000;               // of the automaton
inline constexpr size_t kMostPatternStates = 50'000;         // of a deterministic automaton of a pattern
inline constexpr size_t kMostPatternWork = 10'000'000;       // steps to build it
inline constexpr size_t kMostConfigurations = 4096;          // simultaneous parses of one text
inline constexpr size_t kMostWorkPerMask = 8'000'000;        // configurations visited for the mask of one step
inline constexpr size_t kMostStateBytes = size_t{32} << 20;  // of the visited states of one constraint; then they are dropped
inline constexpr size_t kMostMaskBytes = size_t{32} << 20;   // of cached masks of one constraint
inline constexpr size_t kMostAlternatives = 1024;            // of one schema, after anyOf, oneOf and allOf are combined

}  // namespace kvik::constrain

#pragma once

#include <span>
#include <string_view>

#include "analysis/flow.h"

// What the operators mean to an analysis: which merely move elements, which keep a cache of their own and where.
namespace kvik::analysis {

// Copies elements of its first input to other places or types and computes nothing.
bool moves_elements(const FlowNode& node);
// Adds, multiplies or selects element by element.
bool is_elementwise_arithmetic(const FlowNode& node);
bool is_comparison(const FlowNode& node);  // and logic on what comparisons give
bool is_matmul(const FlowNode& node);      // of two tensors, in any spelling

// A state that an operator takes at one input and gives back, brought up to date, at an output.
struct StateSlot {
  enum class Holds { kKey, kValue, kKeyValue, kRecurrent };
  int input;
  int output;
  Holds holds;
  int fresh;  // the input with the new positions; -1 where they are computed inside
};

// An attention or recurrence in one operator.
struct StatefulOperator {
  std::string_view domain;
  std::string_view op;
  std::span<const StateSlot> states;
  int position_axis = -1;  // of the states
  int key_input = -1;      // attended to as keys and values; -1 where they are computed inside
  int value_input = -1;
};
const StatefulOperator* stateful_operator(const FlowNode& node);  // null for others

// What an operator takes an integer input for.
enum class ControlSlot {
  kNothing,
  kTokens,
  kSegments,
  kPositions,
  kMask,
  kTotalLength,  // of cache and new tokens
  kTotalLengthMinusOne,
  kPastLength,
  kWriteIndices,
};
ControlSlot control_slot(const FlowNode& node, size_t input);

}  // namespace kvik::analysis

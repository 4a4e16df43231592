#pragma once

#include <string_view>
#include <vector>

#include "analysis/flow.h"

// Properties of operators: which ones only move elements, which ones have a cache and at which inputs and outputs.
namespace kvik::analysis {

// Copies or casts elements of its first input without computing anything.
bool moves_elements(const FlowNode& node);
// Adds, multiplies or selects element by element.
bool is_elementwise_arithmetic(const FlowNode& node);
bool is_comparison(const FlowNode& node);   // including logical operators
bool is_matmul(const FlowNode& node);       // any product of two matrices
size_t right_matrix(const FlowNode& node);  // the input of a product that has its right matrix; the left one is input 0

// A state that an operator reads at one input and returns, updated, at one output.
struct StateSlot {
  enum class Holds { kKey, kValue, kKeyValue, kRecurrent };
  int input;
  int output;
  Holds holds;
  int fresh;  // the input with the new positions; -1: computed inside
};

// An attention or recurrent operator.
struct StatefulOperator {
  std::string_view domain;
  std::string_view op;
  std::vector<StateSlot> states;
  int position_axis = -1;  // of the states
  int key_input = -1;      // keys and values; -1: computed inside
  int value_input = -1;
};
const StatefulOperator* stateful_operator(const FlowNode& node);  // null for others

// An attention operator whose cache holds only the newest positions and has its full capacity from the start.
bool keeps_a_window(const FlowNode& node);

// Computes one quantization scale from all elements of its input.
bool quantizes_dynamically(const FlowNode& node);

// The meaning of a control input of an operator.
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

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/shape.h"

// The structure of the axes of a value. An exporter traces the graph with a batch of sequences; a row is one token of one sequence. Knowing
// which part of each axis is batch, which is sequence and which is features proves that an operation works on each row by itself.
namespace kvik::native {

enum class Symbol : uint8_t {
  kBatch,
  kNew,           // tokens of this call
  kPast,          // positions before this call
  kTotal,         // past + new: the keys
  kSource,        // positions of the encoder's source
  kTotalAndSink,  // keys and one more column for an attention sink
  kUnknown,       // a size of the past that the file does not declare; inferred from what is appended
  kSelection,     // number of rows that an expert was chosen for: 0 or 1 for a single row
};

// One factor of an axis: an integer of at least 2, or a symbol.
struct Factor {
  int64_t size = 0;  // 0: a symbol
  Symbol symbol = Symbol::kBatch;
  int32_t selection = 0;  // index, for kSelection

  bool is_symbol() const { return size == 0; }
  friend bool operator==(const Factor&, const Factor&) = default;
};
inline Factor factor(int64_t size) { return {.size = size}; }
inline Factor factor(Symbol symbol, int32_t selection = 0) { return {.size = 0, .symbol = symbol, .selection = selection}; }

// Outermost first; neighboring integers are merged; an axis of size 1 is empty. [batch * 4, new, 16] is {{batch, 4}, {new}, {16}}.
using Axis = std::vector<Factor>;
using Axes = std::vector<Axis>;

Axis canonical(Axis axis);  // drops ones, merges neighboring integers
bool has_symbol(const Axis& axis);
bool holds(const Axis& axis, Symbol symbol);
bool holds(const Axes& axes, Symbol symbol);
int64_t row_size(const Axis& axis);  // the product of its integers; -1 if it has a selection
Dims row_dims(const Axes& axes);     // the shape of one row: batch and sequence axes have size 1
using kvik::to_string;               // of dims
std::string to_string(const Axis& axis);
std::string to_string(const Axes& axes);  // "[batch, 4, new, 16]", for messages

// Concrete values for all symbols.
struct Sizes {
  int64_t batch = 1;
  int64_t fresh = 1;  // new tokens
  int64_t past = 0;
  int64_t source = 5;
  int64_t unknown = 16;
  int64_t selection = 29;  // of the first new token; consecutive
  int64_t buffer = 0;      // capacity of keys in a buffer of fixed size; 0: as many as there are

  int64_t total() const { return past + fresh; }
  friend bool operator==(const Sizes&, const Sizes&) = default;
  int64_t of(const Factor& factor) const;
  int64_t of(const Axis& axis) const;
  Dims of(const Axes& axes) const;
};

// The form of the calls of a graph.
struct CallForm {
  bool has_past = false;
  bool one_token = false;     // a call has one token of one sequence
  bool one_sequence = false;  // a call has one sequence
  int64_t buffer = 0;         // positions of a past of fixed size; 0: it grows
  bool one_position = false;  // feed inputs whose element count the file does not declare only the first position
};

}  // namespace kvik::native

#pragma once

#include <array>
#include <vector>

#include "backend/native/graph/labels.h"
#include "backend/native/graph/refusal.h"

// The sizes at which a graph is probed. Nothing is concluded from a single size.
namespace kvik::native {

// The sizes that identify axes. A dimension is evaluated at all three and is then a triple of numbers.
//
// Why three suffice: an axis is a product of integers and at most two symbols, and the question is which one, from a fixed list
// (NodeLabeler::fitted). Every entry of that list (batch, new, past, total, source, total + 1, batch * new) has a triple that is not a
// multiple of another's, so a triple that is an integer times an entry's is so for one entry only; and an exporter's constants are constant
// triples, which no symbol has. With two sets, past and new could trade places in a sum that happens to agree; a third one rules that out.
// What the triple cannot show (behavior that begins beyond some length) is probed at long_sizes(), and attention and tables have their own
// probes. No past is empty and no sequence is one token long here, except for programs of one token at a time.
std::array<Sizes, 3> size_triple(const Labels& labels);

// Sizes at which this graph can be probed, with these positions among the new ones: one row at a time for a program of one token, all rows
// if there is no past, rows up to the end of a buffer of fixed size. Refuses positions beyond a buffer's capacity.
struct Positions {
  int64_t past = 0, fresh = 1;
  int64_t batch = 1, source = 5;
};
Expected<Sizes> sizes_at(const CallForm& form, const Positions& positions);
inline Expected<Sizes> sizes_at(const Labels& labels, const Positions& positions) { return sizes_at(call_form(labels), positions); }
bool fits_buffer(const Labels& labels, int64_t n_positions);  // true for a past that grows

// Sizes as large as the context (0: unknown), to find behavior that begins beyond some length and so is not visible in short probes.
std::vector<Sizes> long_sizes(const Labels& labels, int64_t context);

}  // namespace kvik::native

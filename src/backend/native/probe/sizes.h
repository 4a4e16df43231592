#pragma once

#include <array>
#include <vector>

#include "backend/native/graph/labels.h"
#include "backend/native/graph/refusal.h"

// At which sizes a graph is probed. Nothing is ever concluded from one size.
namespace kvik::native {

// The sizes that axes are told apart by. A dimension is evaluated at all three and is then a triple of numbers.
//
// Why three suffice: an axis is a product of integers and at most two symbols, and what is asked is which one, out of a fixed list
// (NodeLabeler::fitted). Every entry of that list (batch, new, past, total, source, total + 1, batch * new) has a triple that is not a
// multiple of another's, so a triple that is an integer times an entry's is so for one entry only; and an exporter's constants are constant
// triples, which no symbol has. With two sets, past and new could trade places in a sum that happens to agree; a third one rules that out.
// What the triple cannot tell (behavior that begins beyond some length) is asked at long_sizes(), and attention and tables have probes of
// their own. No past is empty and no sequence is one token long here, except for programs of one token at a time.
std::array<Sizes, 3> size_triple(const Labels& labels);

// Sizes at which this graph can be probed, with these positions among the new ones: one row at a time for a program of one token, all
// rows where there is no past, rows up to the end of a buffer of fixed size. Refuses positions that a buffer has no room for.
struct Positions {
  int64_t past = 0, fresh = 1;
  int64_t batch = 1, source = 5;
};
Expected<Sizes> sizes_at(const CallForm& form, const Positions& positions);
inline Expected<Sizes> sizes_at(const Labels& labels, const Positions& positions) { return sizes_at(call_form(labels), positions); }
bool fits_buffer(const Labels& labels, int64_t n_positions);  // true for a past that grows

// Sizes as long as a context gets (0: unknown): behavior that begins beyond some length looks like nothing in short probes.
std::vector<Sizes> long_sizes(const Labels& labels, int64_t context);

}  // namespace kvik::native

#include "backend/native/probe/sizes.h"

#include <fmt/format.h>

namespace kvik::native {

std::array<Sizes, 3> size_triple(const Labels& labels) {
  using Triple = std::array<Sizes, 3>;
  constexpr Triple kWithPast = {Sizes{.batch = 2, .fresh = 3, .past = 4, .source = 6, .selection = 29},
                                Sizes{.batch = 3, .fresh = 5, .past = 6, .source = 4, .selection = 41},
                                Sizes{.batch = 2, .fresh = 4, .past = 9, .source = 7, .selection = 67}};
  constexpr Triple kWithoutPast = {Sizes{.batch = 2, .fresh = 7, .source = 5, .selection = 29},
                                   Sizes{.batch = 3, .fresh = 11, .source = 13, .selection = 41},
                                   Sizes{.batch = 2, .fresh = 5, .source = 7, .selection = 67}};
  constexpr Triple kOneToken = {Sizes{.past = 4, .source = 5, .selection = 29}, Sizes{.past = 6, .source = 4, .selection = 41},
                                Sizes{.past = 9, .source = 7, .selection = 67}};
  const int64_t buffer = labels.flat->buffer;
  const bool has_past = labels.flat->has_past || buffer > 0;
  Triple triple = labels.one_token ? kOneToken : has_past ? kWithPast : kWithoutPast;
  for (Sizes& sizes : triple) {
    if (labels.one_sequence) sizes.batch = 1;
    if (buffer <= 0) continue;
    sizes.buffer = buffer;
    sizes.past = buffer - sizes.fresh;
  }
  return triple;
}

bool fits_buffer(const Labels& labels, int64_t n_positions) { return labels.flat->buffer <= 0 || n_positions <= labels.flat->buffer; }

Expected<Sizes> sizes_at(const CallForm& form, const Positions& positions) {
  const int64_t batch = form.one_sequence ? 1 : positions.batch, total = positions.past + positions.fresh;
  if (const int64_t buffer = form.buffer; buffer > 0) {
    if (total > buffer) return refuse(fmt::format("the cache has room for {} positions, {} are needed", buffer, total));
    const int64_t first = form.one_token ? buffer - 1 : positions.past;
    return Sizes{.batch = form.one_token ? 1 : batch, .fresh = buffer - first, .past = first, .source = positions.source, .buffer = buffer};
  }
  if (form.one_token) return Sizes{.past = total - 1, .source = positions.source};
  if (!form.has_past) return Sizes{.batch = batch, .fresh = total, .source = positions.source};
  return Sizes{.batch = batch, .fresh = positions.fresh, .past = positions.past, .source = positions.source};
}

std::vector<Sizes> long_sizes(const Labels& labels, int64_t context) {
  std::vector<Sizes> sizes;
  if (labels.flat->buffer > 0) return sizes;  // every probe sees as many keys as there can be
  // Exporters' own thresholds are powers of two, 4096 above all.
  for (const int64_t length : {int64_t{300}, int64_t{5000}, context}) {
    if (length < 2 || (context > 0 && length > context)) continue;
    sizes.push_back(labels.flat->has_past ? Sizes{.fresh = 1, .past = length - 1} : Sizes{.fresh = length});
  }
  return sizes;
}

}  // namespace kvik::native

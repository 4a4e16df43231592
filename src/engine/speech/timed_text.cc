#include "engine/speech/timed_text.h"

#include <algorithm>

namespace kvik::engine {

TimedWindow cut_at_times(std::span<const TokenId> ids, const sample::TimestampRules& rules, double s_per_index, double window_s) {
  TimedWindow result{.texts = {}, .advance_s = window_s};
  const auto time_of = [&](TokenId id) { return std::min(window_s, static_cast<double>(id - rules.first) * s_per_index); };
  std::vector<size_t> ends;  // behind the first time of each pair
  for (size_t i = 1; i < ids.size(); ++i) {
    if (rules.is_time(ids[i - 1]) && rules.is_time(ids[i])) ends.push_back(i);
  }
  const bool ends_with_one = ids.size() >= 2 && !rules.is_time(ids[ids.size() - 2]) && rules.is_time(ids.back());
  if (ends.empty()) {
    double end_s = window_s;
    const auto last = std::find_if(ids.rbegin(), ids.rend(), [&](TokenId id) { return rules.is_time(id); });
    if (last != ids.rend() && *last != rules.first) end_s = time_of(*last);
    if (!ids.empty()) result.texts.push_back({0, end_s, {ids.begin(), ids.end()}});
    return result;
  }
  if (ends_with_one) ends.push_back(ids.size());
  size_t begin = 0;
  for (const size_t end : ends) {
    const std::span<const TokenId> part = ids.subspan(begin, end - begin);
    const double start_s = rules.is_time(part.front()) ? time_of(part.front()) : 0;
    result.texts.push_back({start_s, time_of(part.back()), {part.begin(), part.end()}});
    begin = end;
  }
  // A single timestamp at the end: there is no speech after it. Otherwise the text after the last pair is unfinished.
  if (!ends_with_one) result.advance_s = time_of(ids[begin - 1]);
  if (result.advance_s <= 0) result.advance_s = window_s;
  return result;
}

}  // namespace kvik::engine

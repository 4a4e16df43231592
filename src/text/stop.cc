#include "text/stop.h"

#include <algorithm>

namespace kvik::text {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

// The longest suffix of the text that is a prefix of a stop string.
size_t StopMatcher::held_bytes() const {
  size_t held = 0;
  for (const std::string& stop : stops_) {
    if (stop.empty()) continue;
    size_t n = std::min(stop.size() - 1, text_.size());
    while (n > held && text_.compare(text_.size() - n, n, stop, 0, n) != 0) --n;
    held = std::max(held, n);
  }
  return held;
}

std::string_view StopMatcher::push(std::string_view text) {
  text_.erase(0, n_output_);
  n_output_ = 0;
  if (stopped_) return {};
  text_.append(text);
  size_t best_end = std::string::npos;
  size_t best_begin = 0;
  for (size_t i = 0; i < stops_.size(); ++i) {
    if (stops_[i].empty()) continue;
    const size_t begin = text_.find(stops_[i]);
    if (begin == std::string::npos) continue;
    const size_t end = begin + stops_[i].size();
    if (end > best_end || (end == best_end && begin >= best_begin)) continue;
    best_end = end;
    best_begin = begin;
    stopped_ = i;
  }
  n_output_ = stopped_ ? best_begin : text_.size() - held_bytes();
  if (stopped_) text_.erase(n_output_);
  return std::string_view(text_).substr(0, n_output_);
}

std::string_view StopMatcher::flush() {
  text_.erase(0, n_output_);
  n_output_ = text_.size();
  return text_;
}

}  // namespace kvik::text

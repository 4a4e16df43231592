#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvik::text {

// Finds stop strings in text that comes in parts, wherever the borders fall. Of several, the one that is complete first counts; of
// two complete at once, the longer. Nothing that may be the beginning of one is shown before that is decided. One thread.
class StopMatcher {
 public:
  // Empty strings stop nothing.
  explicit StopMatcher(std::vector<std::string> stops);

  // What may be shown now. Holds until the next call. Empty once stopped.
  std::string_view push(std::string_view text);
  // No text follows: what was held back.
  std::string_view flush();
  // The place, in the list given, of the string that was found.
  std::optional<size_t> stopped() const { return stopped_; }

 private:
  size_t held_bytes() const;

  std::vector<std::string> stops_;
  std::string text_;    // what is held back, then what is new
  size_t n_shown_ = 0;  // bytes of text_ that the last call gave out
  std::optional<size_t> stopped_;
};

}  // namespace kvik::text

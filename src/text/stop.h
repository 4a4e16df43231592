#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvik::text {

// Finds stop strings in a text stream, also across parts. The one that is completed first wins; of two completed at once, the longer.
// Text that may be the beginning of a stop string is held back. One thread.
class StopMatcher {
 public:
  // Empty strings are ignored.
  explicit StopMatcher(std::vector<std::string> stops);

  // The text that can be output now. Valid until the next call. Empty once stopped.
  std::string_view push(std::string_view text);
  // The text that was held back, at the end of the stream.
  std::string_view flush();
  // The index of the stop string that was found.
  std::optional<size_t> stopped() const { return stopped_; }

 private:
  size_t held_bytes() const;

  std::vector<std::string> stops_;
  std::string text_;     // text held back, then new text
  size_t n_output_ = 0;  // bytes of text_ that the last call returned
  std::optional<size_t> stopped_;
};

}  // namespace kvik::text

#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvik::cli {

// Standard input, as it arrives. Throws Error(kIo) if it cannot be read. While Interrupt::happened() it behaves as if it had ended.
class StandardInput {
 public:
  // The next line without its end ("\n" or "\r\n"); nothing at the end of the input.
  std::optional<std::string> next_line();

  // A line that has arrived before `deadline`; nothing if none has, or at the end of the input.
  using Time = std::chrono::steady_clock::time_point;
  std::optional<std::string> next_line_before(Time deadline);

  // Waits for one line, then also takes those that arrive shortly after it, at most `most` lines: a file fills whole batches, and a user
  // who types gets an answer at once. Empty at the end of the input.
  std::vector<std::string> next_lines(size_t most);

  // The next part, of at most 64 KB; empty at the end. Valid until the next call.
  std::string_view next_part();

  std::string read_all();

 private:
  bool receive(std::optional<Time> deadline);
  std::optional<std::string> take_line();
  std::optional<std::string> wait_for_line(std::optional<Time> deadline);

  bool at_end() const;

  std::string buffer_;
  size_t begin_ = 0;     // bytes before it have been returned
  size_t searched_ = 0;  // bytes before it contain no line break
  bool ended_ = false;
  std::string part_;
};

}  // namespace kvik::cli

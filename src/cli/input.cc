#include "cli/input.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "cli/interrupt.h"
#include "kvik/error.h"

namespace kvik::cli {
namespace {

constexpr size_t kPartBytes = 64 << 10;

[[noreturn]] void fail_reading() {
  const int reason = errno;
  throw Error(Code::kIo, fmt::format("standard input could not be read: {}", std::strerror(reason)));
}

// Waits until there is something to read; false if the deadline passes first or Ctrl-C is pressed.
bool wait_readable(std::optional<StandardInput::Time> deadline) {
  for (;;) {
    if (Interrupt::happened()) return false;
    int timeout_ms = -1;
    if (deadline) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - std::chrono::steady_clock::now());
      timeout_ms = static_cast<int>(std::max<int64_t>(0, left.count()));
    }
    pollfd sources[] = {{STDIN_FILENO, POLLIN, 0}, {Interrupt::descriptor(), POLLIN, 0}};  // a negative descriptor is skipped
    const int n_ready = poll(sources, 2, timeout_ms);
    if (n_ready < 0 && errno != EINTR) fail_reading();
    if (n_ready == 0) return false;
    if (n_ready > 0 && sources[0].revents != 0) return true;
  }
}

}  // namespace

bool StandardInput::at_end() const { return ended_ || Interrupt::happened(); }

// Returns whether bytes or the end of the input arrived.
bool StandardInput::receive(std::optional<Time> deadline) {
  if (!wait_readable(deadline)) return false;
  buffer_.erase(0, begin_);
  searched_ -= begin_;
  begin_ = 0;
  const size_t before = buffer_.size();
  buffer_.resize(before + kPartBytes);
  const ssize_t n_read = read(STDIN_FILENO, buffer_.data() + before, kPartBytes);
  buffer_.resize(before + static_cast<size_t>(std::max<ssize_t>(n_read, 0)));
  if (n_read < 0 && (errno == EINTR || errno == EAGAIN)) return false;
  if (n_read < 0) fail_reading();
  ended_ = n_read == 0;
  return true;
}

std::optional<std::string> StandardInput::take_line() {
  const size_t end = std::min(buffer_.find('\n', searched_), buffer_.size());
  searched_ = end;
  if (end == buffer_.size() && (!ended_ || begin_ == end)) return std::nullopt;
  std::string line = buffer_.substr(begin_, end - begin_);
  begin_ = searched_ = std::min(end + 1, buffer_.size());
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

std::optional<std::string> StandardInput::wait_for_line(std::optional<Time> deadline) {
  while (!Interrupt::happened()) {
    if (std::optional<std::string> line = take_line()) return line;
    if (ended_ || (!receive(deadline) && deadline)) return std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::string> StandardInput::next_line() { return wait_for_line(std::nullopt); }
std::optional<std::string> StandardInput::next_line_before(Time deadline) { return wait_for_line(deadline); }

std::vector<std::string> StandardInput::next_lines(size_t most) {
  constexpr std::chrono::milliseconds kLongestWait{50};
  std::vector<std::string> lines;
  std::optional<std::string> line = next_line();
  const Time deadline = std::chrono::steady_clock::now() + kLongestWait;
  for (; line && lines.size() < most; line = lines.size() < most ? next_line_before(deadline) : std::nullopt)
    lines.push_back(std::move(*line));
  return lines;
}

std::string_view StandardInput::next_part() {
  while (begin_ == buffer_.size() && !at_end()) receive(std::nullopt);
  part_ = buffer_.substr(begin_);
  begin_ = searched_ = buffer_.size();
  return part_;
}

std::string StandardInput::read_all() {
  while (!at_end()) receive(std::nullopt);
  begin_ = searched_ = 0;
  return std::move(buffer_);
}

}  // namespace kvik::cli

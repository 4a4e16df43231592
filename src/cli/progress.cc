#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include "cli/output.h"

namespace kvik::cli {

Progress::Progress(const Terminal& terminal, std::string what)
    : what_(std::move(what)), enabled_(!terminal.quiet && isatty(STDERR_FILENO) != 0), started_(std::chrono::steady_clock::now()) {}

bool Progress::is_due() const { return enabled_ && std::chrono::steady_clock::now() - started_ >= std::chrono::seconds(1); }

void Progress::print_line(const std::string& text) {
  print_error_text(fmt::format("\r\033[K{}: {}", what_, text));
  shown_ = true;
}

void Progress::show(int done, int total) {
  if (is_due()) print_line(fmt::format("{} of {} ({:.0f} %)", done, total, total > 0 ? 100.0 * done / total : 100.0));
}

void Progress::show(int done) {
  if (is_due()) print_line(fmt::format("{}", done));
}

void Progress::clear() {
  if (shown_) print_error_text("\r\033[K");
  shown_ = false;
}

}  // namespace kvik::cli

#include "cli/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <unistd.h>

#include "base/escape.h"
#include "kvik/error.h"

namespace kvik::cli {
namespace {

[[noreturn]] void fail_writing() {
  const int reason = errno;
  throw Error(Code::kIo, fmt::format("standard output could not be written: {}", std::strerror(reason)));
}

}  // namespace

void open_standard_streams() {
  // Opened in the wrong mode, so that using a stream that was closed is an error.
  constexpr int kModes[] = {O_WRONLY, O_RDONLY, O_RDONLY};
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    const int opened = open("/dev/null", kModes[descriptor]);  // the lowest free number: this one
    if (opened > 2) close(opened);
  }
}

void print_text(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail_writing();
}

void flush_output() {
  if (std::fflush(stdout) != 0) fail_writing();
}

void close_output() {
  flush_output();
  if (close(STDOUT_FILENO) != 0 && errno != EINTR) fail_writing();
}

void print_sentence(std::string_view sentence) noexcept {
  try {
    print_error_text(fmt::format("kvik: {}\n", escape_controls(sentence)));
  } catch (const std::exception&) { print_error_text("kvik: out of memory\n"); }
}

void print_error_text(std::string_view text) noexcept {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace kvik::cli

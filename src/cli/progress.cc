#include "cli/progress.h"

#include <csignal>
#include <cstdio>
#include <fmt/format.h>
#include <unistd.h>

namespace kvik::cli {
namespace {

// A signal handler can reach nothing but this.
volatile std::sig_atomic_t interrupted = 0;

void on_interrupt(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

Progress::Progress(const Terminal& terminal, std::string what)
    : what_(std::move(what)), enabled_(!terminal.quiet && isatty(STDERR_FILENO) != 0), started_(std::chrono::steady_clock::now()) {}

void Progress::show(int done, int total) {
  if (!enabled_ || std::chrono::steady_clock::now() - started_ < std::chrono::seconds(1)) return;
  fmt::print(stderr, "\r\033[K{}: {} of {} ({:.0f} %)", what_, done, total, total > 0 ? 100.0 * done / total : 100.0);
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

Interrupt::Interrupt() {
  interrupted = 0;
  std::signal(SIGINT, on_interrupt);
}
Interrupt::~Interrupt() { std::signal(SIGINT, SIG_DFL); }
bool Interrupt::happened() { return interrupted != 0; }
void Interrupt::forget() {
  interrupted = 0;
  std::signal(SIGINT, on_interrupt);
}

}  // namespace kvik::cli

#include "cli/interrupt.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <unistd.h>

namespace kvik::cli {
namespace {

// The state of the signal handler, which can only use globals.
volatile std::sig_atomic_t n_waiting = 0;  // Interrupt objects
volatile std::sig_atomic_t interrupted = 0;
int pipe_ends[2] = {-1, -1};

void on_interrupt(int) {
  if (n_waiting == 0 || interrupted != 0) _exit(Interrupt::kExitStatus);
  interrupted = 1;
  const int saved = errno;
  [[maybe_unused]] const ssize_t n = write(pipe_ends[1], "", 1);
  errno = saved;
}

}  // namespace

void Interrupt::install() {
  struct sigaction before {};
  if (sigaction(SIGINT, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) return;
  if (pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK) != 0) pipe_ends[0] = pipe_ends[1] = -1;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;  // code that waits for the user also waits for descriptor()
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

Interrupt::Interrupt() { n_waiting = n_waiting + 1; }
Interrupt::~Interrupt() { n_waiting = n_waiting - 1; }

bool Interrupt::happened() { return interrupted != 0; }

void Interrupt::reset() {
  char byte = 0;
  while (read(pipe_ends[0], &byte, 1) > 0) {}
  interrupted = 0;
}

int Interrupt::descriptor() { return pipe_ends[0]; }

}  // namespace kvik::cli

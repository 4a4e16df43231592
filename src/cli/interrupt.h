#pragma once

namespace kvik::cli {

// Handles Ctrl-C (SIGINT), which always leads to exit status 130. A command that can stop early holds an Interrupt while it works: the
// first Ctrl-C then only sets a flag, the command prints what is finished and returns, and main turns its status into 130. A second
// Ctrl-C, or one while there is no Interrupt, ends the program at once.
class Interrupt {
 public:
  static constexpr int kExitStatus = 130;

  // Called once, by main. A SIGINT that the parent process ignores stays ignored.
  static void install();

  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  static bool happened();
  static void reset();      // for commands that continue (chat)
  static int descriptor();  // becomes readable when it happens, for poll(); -1 without install()
};

}  // namespace kvik::cli

#pragma once

#include <chrono>
#include <string>

#include "cli/command.h"

namespace kvik::cli {

// A line on standard error that shows how far something is, once it has taken a second; nothing where that is no terminal.
class Progress {
 public:
  Progress(const Terminal& terminal, std::string what);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(int done, int total);
  void clear();

 private:
  std::string what_;
  bool enabled_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point started_;
};

// While it lives, Ctrl-C sets a flag instead of ending the program; a second one ends it.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  static bool happened();
  static void forget();
};

}  // namespace kvik::cli

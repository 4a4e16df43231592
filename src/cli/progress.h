#pragma once

#include <chrono>
#include <string>

#include "cli/command.h"

namespace kvik::cli {

// A line on standard error that shows how far something is, once it has taken a second. Shown only on a terminal.
class Progress {
 public:
  Progress(const Terminal& terminal, std::string what);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(int done, int total);
  void show(int done);  // of a total that is not known
  void clear();

 private:
  bool is_due() const;
  void print_line(const std::string& text);

  std::string what_;
  bool enabled_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace kvik::cli

#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "kvik/profile.h"

namespace kvik::cli {

// Settings of every command. Filled by main before a command runs.
struct Terminal {
  bool json = false;
  bool quiet = false;
  LogLevel log_level = LogLevel::kWarning;
  bool profile = false;                // --profile
  std::string trace;                   // --trace FILE
  std::shared_ptr<Profile> recording;  // if one of them was given
  bool color = false;                  // standard output is a terminal, and NO_COLOR is not set

  // Prints what the library logs at log_level or above on standard error.
  Log log() const;
};

// A command adds itself to `app`. If the user chose it, it sets `run` to what main calls next; the result is the exit status.
using Run = std::function<int()>;
struct Commands {
  CLI::App& app;
  Terminal& terminal;
  Run& run;
};

// --json, --quiet and --log-level, which every command has.
void add_common_options(CLI::App& command, Terminal& terminal);

// commands.cc: one line per command, in the order of the help; each command has its own file (src/cli/NAME.cc).
void add_all(Commands commands);

}  // namespace kvik::cli

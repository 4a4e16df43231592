#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "api/environment.h"
#include "base/log.h"

namespace kvik::cli {

// What every command shares. Filled by main before a command runs.
struct Terminal {
  bool json = false;
  bool quiet = false;
  LogLevel log_level = LogLevel::kWarning;
  bool colour = false;  // standard output is a terminal that wants it
  api::Environment environment;

  // Writes what the library says to standard error, from log_level on.
  Log log() const;
};

// A command adds itself to `app` and, when the user chose it, sets `run` to what main calls then; its result is the exit status.
using Run = std::function<int()>;
struct Commands {
  CLI::App& app;
  Terminal& terminal;
  Run& run;
};

// --json, --quiet and --log-level, which every command knows.
void add_common_options(CLI::App& command, Terminal& terminal);

// commands.cc: one line a command, in the order of the help; each is a file of its own (src/cli/NAME.cc).
void add_all(Commands commands);

}  // namespace kvik::cli

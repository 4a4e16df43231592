#include "cli/choices.h"
#include "cli/command.h"

namespace kvik::cli {

void add_common_options(CLI::App& command, Terminal& terminal) {
  const Choices<LogLevel> levels = {
      {"debug", LogLevel::kDebug}, {"info", LogLevel::kInfo}, {"warning", LogLevel::kWarning}, {"error", LogLevel::kError}};
  command.add_flag("--json", terminal.json, "Print one JSON object on standard output and nothing else");
  command.add_flag("-q,--quiet", terminal.quiet, "Print only errors on standard error");
  add_choice(command, {"--log-level", "Lowest level to print on standard error"}, terminal.log_level, levels);
}

}  // namespace kvik::cli

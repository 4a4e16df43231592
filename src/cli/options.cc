#include "cli/command.h"

namespace kvik::cli {

void add_common_options(CLI::App& command, Terminal& terminal) {
  static const std::map<std::string, LogLevel> kLevels = {
      {"debug", LogLevel::kDebug}, {"info", LogLevel::kInfo}, {"warning", LogLevel::kWarning}, {"error", LogLevel::kError}};
  command.add_flag("--json", terminal.json, "Print one JSON object on standard output, and nothing else there");
  command.add_flag("-q,--quiet", terminal.quiet, "Print only errors on standard error");
  command.add_option("--log-level", terminal.log_level, "Lowest level to print on standard error: debug, info, warning or error")
      ->transform(CLI::CheckedTransformer(kLevels, CLI::ignore_case).description(""))
      ->option_text("LEVEL");
}

}  // namespace kvik::cli

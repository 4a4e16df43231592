#include <cstdlib>
#include <exception>
#include <fmt/format.h>
#include <sstream>
#include <unistd.h>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/profile_report.h"
#include "cli/usage.h"
#include "kvik/error.h"
#include "kvik/version.h"

namespace kvik::cli {

Log Terminal::log() const {
  return Log([level = quiet ? LogLevel::kError : log_level](LogLevel logged, std::string_view sentence) {
    constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
    if (logged >= level) print_message("{}: {}", kNames[static_cast<int>(logged)], sentence);
  });
}

namespace {

constexpr int kSuccess = 0, kFailure = 1, kWrongUsage = 2;

bool wants_color() { return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr; }

int parse_and_run(int argc, char** argv) {
  CLI::App app("Runs generative ONNX models with a key/value cache: the file you exported, unchanged.", "kvik");
  app.formatter(std::make_shared<HelpFormatter>());
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string(kVersion));
  app.set_help_all_flag("--help-all", "Print the help of every command");
  app.footer("Exit status: 0 success, 1 failure (one sentence on standard error), 2 usage error, 130 interrupted by Ctrl-C.");

  Terminal terminal;
  terminal.color = wants_color();
  Run chosen;
  add_all({app, terminal, chosen});
  check_numbers(app);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) {
      print_sentence(usage_sentence(app, e));
      return kWrongUsage;
    }
    std::ostringstream help, no_errors;
    app.exit(e, help, no_errors);
    print_text(help.str());
    return kSuccess;
  }
  if (terminal.profile || !terminal.trace.empty()) terminal.recording = std::make_shared<Profile>(!terminal.trace.empty());
  const int status = chosen();
  report_profile(terminal);
  return status;
}

// Parses, runs the command and writes its result: everything that can fail.
int run_to_the_end(int argc, char** argv) {
  try {
    const int status = parse_and_run(argc, argv);
    close_output();
    return status;
  } catch (const std::bad_alloc&) { print_sentence("out of memory"); } catch (const std::exception& e) {
    print_sentence(e.what());
  }
  return kFailure;
}

}  // namespace
}  // namespace kvik::cli

int main(int argc, char** argv) {
  using kvik::cli::Interrupt;
  kvik::cli::open_standard_streams();
  Interrupt::install();
  const int status = kvik::cli::run_to_the_end(argc, argv);
  return Interrupt::happened() ? Interrupt::kExitStatus : status;
}

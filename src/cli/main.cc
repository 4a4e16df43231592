#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fmt/format.h>
#include <map>
#include <unistd.h>

#include "cli/command.h"
#include "kvik/error.h"
#include "kvik/version.h"

namespace kvik::cli {

Log Terminal::log() const {
  return Log([level = quiet ? LogLevel::kError : log_level](LogLevel said, std::string_view sentence) {
    constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
    if (said >= level) fmt::print(stderr, "kvik: {}: {}\n", kNames[static_cast<int>(said)], sentence);
  });
}

namespace {

bool wants_colour() { return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr; }

int run(int argc, char** argv) {
  CLI::App app("Runs generative ONNX models with a key/value cache: the file you exported, unchanged.", "kvik");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string(kVersion));
  app.set_help_all_flag("--help-all", "Print the help of every command");

  Terminal terminal;
  terminal.colour = wants_colour();
  terminal.environment = api::read_environment();
  Run chosen;
  add_all({app, terminal, chosen});

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int status = app.exit(e);
    return status == 0 ? 0 : 2;  // help and version are no failure
  }
  return chosen();
}

}  // namespace
}  // namespace kvik::cli

int main(int argc, char** argv) {
  try {
    return kvik::cli::run(argc, argv);
  } catch (const std::bad_alloc&) { fmt::print(stderr, "kvik: out of memory\n"); } catch (const std::exception& e) {
    fmt::print(stderr, "kvik: {}\n", e.what());
  }
  return 1;
}

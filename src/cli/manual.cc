#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/new_file.h"
#include "cli/help_texts.h"
#include "cli/output.h"
#include "kvik/error.h"
#include "kvik/version.h"

namespace kvik::cli {
namespace {

// The pages are written here, not by help2man, because `kvik manual` must work on machines that have only the program.

// Escapes troff requests, and keeps dashes as typed, so that options can be copied.
std::string troff_escaped(const std::string& text) {
  std::string safe = text.starts_with('.') || text.starts_with('\'') ? "\\&" : "";
  for (const char c : text) {
    if (c == '\\') {
      safe += "\\e";
    } else if (c == '-') {
      safe += "\\-";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string bold(const std::string& text) { return "\\fB" + troff_escaped(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + troff_escaped(text) + "\\fR"; }

std::string head(const std::string& name, const std::string& description) {
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return fmt::format(".TH \"{}\" 1 \"\" \"kvik {}\" \"Kvik\"\n.SH NAME\n{} \\- {}\n", troff_escaped(upper),
                     troff_escaped(std::string(kVersion)), troff_escaped(name), troff_escaped(description));
}

std::string option_entry(const OptionText& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back(option.positional ? italic(name) : bold(name));
  std::string argument;
  if (const auto choices = option.choices(); !choices.empty()) {
    std::vector<std::string> words;
    for (const std::string& choice : choices) words.push_back(bold(choice));
    argument = fmt::format(" {}", fmt::join(words, "|"));
  } else if (!option.argument.empty()) {
    argument = " " + italic(option.argument);
  }
  return fmt::format(".TP\n{}{}\n{}\n", fmt::join(names, ", "), argument, troff_escaped(option.description));
}

std::string option_list(const std::vector<OptionText>& options, bool positional) {
  std::string list;
  for (const OptionText& option : options) {
    if (option.positional == positional) list += option_entry(option);
  }
  return list;
}

std::string synopsis(const CommandText& command) {
  std::string line = fmt::format(".SH SYNOPSIS\n{} {} [{}]", bold("kvik"), bold(command.name), italic("OPTIONS"));
  for (const OptionText& option : command.options) {
    const std::string name = italic(option.names[0]);
    if (option.positional) line += option.required ? " " + name : " [" + name + "]";
  }
  return line + "\n";
}

std::string command_page(const CommandText& command) {
  std::string page = head("kvik-" + command.name, command.description) + synopsis(command);
  const std::string positionals = option_list(command.options, true);
  if (!positionals.empty()) page += ".SH ARGUMENTS\n" + positionals;
  return page + ".SH OPTIONS\n" + option_list(command.options, false) + ".SH SEE ALSO\n" + bold("kvik") + "(1)\n";
}

constexpr const char* kRest = R"(.SH EXIT STATUS
0: success; 1: failure, with one sentence on standard error that says what was found, what was expected and what to do; 2: wrong usage;
130: interrupted by Ctrl-C; what was finished by then is printed.
.SH ENVIRONMENT
.TP
\fBKVIK_MODELS\fR
Folders that contain models, separated by colons; searched before those of the installation and of the user.
.TP
\fBKVIK_ORT_LIB\fR
The shared library of ONNX Runtime.
.TP
\fBKVIK_CUDA_LIB\fR
The library with the CUDA kernels, libkvik-cuda.so.
.TP
\fBKVIK_CACHE\fR
Folder that keeps plans and packed weights for the next start; without it, kvik in $XDG_CACHE_HOME or ~/.cache.
.TP
\fBKVIK_CACHE_BYTES\fR
Most bytes of that folder (20 GB); the least recently used files are deleted first. 0: nothing is kept.
.TP
\fBNO_COLOR\fR
Turns off color.
)";

std::string main_page(const CLI::App& app) {
  const CommandText program = text_of(app);
  std::string page = head("kvik", "runs generative ONNX models with a key/value cache");
  page += fmt::format(".SH SYNOPSIS\n{} {} [{}] ...\n.SH DESCRIPTION\n{}\n", bold("kvik"), italic("COMMAND"), italic("OPTIONS"),
                      troff_escaped(program.description));
  std::vector<std::string> others;
  page += ".SH COMMANDS\n";
  for (const CommandText& command : texts_of_commands(app)) {
    page += fmt::format(".TP\n{}\n{}\n", bold(command.name), troff_escaped(command.description));
    others.push_back(bold("kvik-" + command.name) + "(1)");
  }
  return page + ".SH OPTIONS\n" + option_list(program.options, false) + kRest + fmt::format(".SH SEE ALSO\n{}\n", fmt::join(others, ", "));
}

int write_pages(const CLI::App& app, const std::filesystem::path& folder) {
  write_file(folder / "kvik.1", main_page(app));
  for (const CommandText& command : texts_of_commands(app))
    write_file(folder / fmt::format("kvik-{}.1", command.name), command_page(command));
  return 0;
}

int print_page(const CLI::App& app, const std::string& name) {
  if (name.empty()) {
    print_text(main_page(app));
    return 0;
  }
  for (const CommandText& command : texts_of_commands(app)) {
    if (command.name != name) continue;
    print_text(command_page(command));
    return 0;
  }
  throw Error(Code::kBadArgument, fmt::format("{}: no such command; kvik --help lists them", name));
}

struct ManualOptions {
  std::string command;
  std::string folder;
};

}  // namespace

void add_manual(Commands commands) {
  auto options = std::make_shared<ManualOptions>();
  CLI::App* command = commands.app.add_subcommand("manual", "Print a manual page (to view it: kvik manual | man -l -)");
  command->add_option("COMMAND", options->command, "Command to describe; default: kvik itself")->option_text(" ");
  command->add_option("--folder", options->folder, "Write the manual pages of all commands to this folder")->option_text("FOLDER");
  command->callback([commands, options] {
    commands.run = [=] {
      return options->folder.empty() ? print_page(commands.app, options->command) : write_pages(commands.app, options->folder);
    };
  });
}

}  // namespace kvik::cli

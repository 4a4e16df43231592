#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace kvik::cli {

// The contents of `--help` as data, for manual pages and completions.
struct OptionText {
  std::vector<std::string> names;  // "-n", "--max-tokens"; "MODEL" for a positional argument
  std::string argument;            // "N", "FILE", "cpu|cuda"; empty: takes none, or is positional and may be any word
  std::string description;
  bool positional = false;
  bool required = false;

  std::vector<std::string> choices() const;  // "cpu", "cuda"; empty: any word
  bool takes_file() const;
};

struct CommandText {
  std::string name;
  std::string description;
  std::vector<OptionText> options;

  bool takes_model() const;
  std::vector<std::string> words() const;  // allowed as positional arguments; empty: any
};

// Of `app` itself, with its options; its commands are not among them.
CommandText text_of(const CLI::App& app);
// In the order of the help.
std::vector<CommandText> texts_of_commands(const CLI::App& app);

}  // namespace kvik::cli

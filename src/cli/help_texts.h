#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace kvik::cli {

// What `--help` says, as data: manual pages and completions are made of it.
struct OptionText {
  std::vector<std::string> names;  // "-n", "--max-tokens"; "MODEL" for what stands without a name
  std::string argument;            // "N", "FILE", "cpu|cuda"; empty: takes none, or is positional and may be any word
  std::string description;
  bool positional = false;
  bool required = false;

  std::vector<std::string> choices() const;  // "cpu", "cuda"; empty where any word may stand
  bool takes_file() const;
};

struct CommandText {
  std::string name;
  std::string description;
  std::vector<OptionText> options;

  bool takes_model() const;
  std::vector<std::string> words() const;  // that may stand without a name; empty: any
};

// Of `app` itself, with its options; its commands are not among them.
CommandText text_of(const CLI::App& app);
// In the order of the help.
std::vector<CommandText> texts_of_commands(const CLI::App& app);

}  // namespace kvik::cli

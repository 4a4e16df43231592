#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace kvik::cli {

// One sentence about a command line that could not be parsed, with the nearest command or option if one was misspelled.
std::string usage_sentence(const CLI::App& app, const CLI::ParseError& error);

// Like CLI11's, but columns are aligned if names are not ASCII, and the left column has no "Excludes:".
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_usage(const CLI::Option* option) const override;
};

// Makes options with numeric values reject words that are not numbers or out of the range of their type, for all commands of `app`.
void check_numbers(CLI::App& app);

// The candidate with the smallest edit distance to `word`; empty if none is close.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace kvik::cli

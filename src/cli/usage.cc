#include "cli/usage.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <fmt/format.h>
#include <sstream>

#include "base/edit_distance.h"

namespace kvik::cli {
namespace {

constexpr size_t kMaxWord = 64;

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(command->get_name());
  return names;
}

std::string or_suggestion(const std::string& near, const std::string& help) {
  return near.empty() ? fmt::format("{} lists them", help) : fmt::format("did you mean {}? {} lists them", near, help);
}

// The first argument that no command or option took. After "--" every argument is positional.
struct Extra {
  std::string word;  // empty: all arguments were taken
  bool positional = true;
};

Extra first_extra(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining(true);
  if (extras.empty()) return {};
  if (extras.front() != "--") return {extras.front(), extras.front().size() < 2 || !extras.front().starts_with('-')};
  return extras.size() > 1 ? Extra{extras[1]} : Extra{};
}

bool is_number(const std::string& word, bool fractional) {
  char* end = nullptr;
  errno = 0;
  if (fractional) {
    std::strtod(word.c_str(), &end);
  } else {
    std::strtoll(word.c_str(), &end, 0);
  }
  return !word.empty() && *end == 0 && std::isspace(static_cast<unsigned char>(word.front())) == 0;
}

std::string check_int(const std::string& word) {
  if (!is_number(word, false)) return fmt::format("'{}' is not a whole number", word.substr(0, kMaxWord));
  const long long value = std::strtoll(word.c_str(), nullptr, 0);
  if (errno == ERANGE || value != static_cast<int>(value)) return fmt::format("{} is out of range", word.substr(0, kMaxWord));
  return {};
}

std::string check_unsigned(const std::string& word) {
  if (!is_number(word, false) || word.front() == '-') return fmt::format("'{}' is not a whole number, 0 or more", word.substr(0, kMaxWord));
  errno = 0;
  std::strtoull(word.c_str(), nullptr, 0);
  return errno == ERANGE ? fmt::format("{} is out of range", word.substr(0, kMaxWord)) : std::string();
}

std::string check_float(const std::string& word) {
  return is_number(word, true) ? std::string() : fmt::format("'{}' is not a number", word.substr(0, kMaxWord));
}

// Of an option that was given too often or without its value.
std::string mismatch_sentence(const CLI::App& command, const CLI::ParseError& error) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() > 1 && option->get_expected_max() == 1)
      return fmt::format("{} was given {} times; once was expected", option->get_name(), option->count());
  }
  const std::string text = error.what();
  return fmt::format("{} needs a value", text.substr(0, text.find(':')));
}

}  // namespace

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  const std::string name = make_option_name(option, is_positional) + make_option_opts(option);
  const auto n_not_columns = std::ranges::count_if(name, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; });
  std::stringstream out;
  CLI::detail::format_help(out, name, make_option_desc(option), column_width_ + static_cast<size_t>(n_not_columns));
  return out.str();
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  const bool is_flag = option->get_items_expected_max() == 0;
  return is_flag ? std::string() : Formatter::make_option_opts(option);
}

// Two values of one positional: a model may be given before the file.
std::string HelpFormatter::make_option_usage(const CLI::Option* option) const {
  if (option->get_expected_max() == 2) return "[MODEL] " + make_option_name(option, true);
  return Formatter::make_option_usage(option);
}

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  if (word.size() > kMaxWord) return {};
  const size_t allowed = std::max<size_t>(2, word.size() / 4);
  std::string best;
  size_t best_distance = allowed + 1;
  for (const std::string& candidate : candidates) {
    const bool begins = word.size() > 3 && candidate.starts_with(word);  // "--temp"
    const size_t distance = begins ? 1 : edit_distance(word, candidate);
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return best;
}

void check_numbers(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    for (CLI::Option* option : command->get_options()) {
      const std::string type = option->get_type_name();
      if (type == "INT") option->check(check_int, "");
      if (type == "UINT") option->check(check_unsigned, "");
      if (type == "FLOAT") option->check(check_float, "");
    }
  }
}

std::string usage_sentence(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const auto [extra, is_positional] = first_extra(app);
  if (chosen.empty()) {
    if (extra.empty()) return "a command was expected; kvik --help lists commands and options";
    if (extra.starts_with('-'))
      return fmt::format("there is no option '{}'; {}", extra, or_suggestion(nearest(extra, options_of(app)), "kvik --help"));
    return fmt::format("there is no command '{}'; {}", extra, or_suggestion(nearest(extra, commands_of(app)), "kvik --help"));
  }
  const CLI::App& command = *chosen.front();
  const std::string help = fmt::format("kvik {} --help", command.get_name());
  const bool has_extra = !extra.empty() && dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const bool mismatch = dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr;
  if (!has_extra)
    return fmt::format("{}: {}; see {}", command.get_name(), mismatch ? mismatch_sentence(command, error) : error.what(), help);
  if (is_positional) return fmt::format("{}: unexpected argument '{}'; see {}", command.get_name(), extra, help);
  const std::string name = extra.substr(0, extra.find('='));
  return fmt::format("'{}' has no option '{}'; {}", command.get_name(), name, or_suggestion(nearest(name, options_of(command)), help));
}

}  // namespace kvik::cli

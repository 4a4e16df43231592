#include "cli/usage.h"

#include <algorithm>
#include <fmt/format.h>

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

// The first argument that no command or option took; empty if all were taken.
std::string first_extra(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining(true);
  return extras.empty() ? std::string() : extras.front();
}

}  // namespace

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

std::string usage_sentence(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const std::string extra = first_extra(app);
  if (chosen.empty()) {
    if (extra.empty()) return "a command was expected; kvik --help lists commands and options";
    if (extra.starts_with('-'))
      return fmt::format("there is no option '{}'; {}", extra, or_suggestion(nearest(extra, options_of(app)), "kvik --help"));
    return fmt::format("there is no command '{}'; {}", extra, or_suggestion(nearest(extra, commands_of(app)), "kvik --help"));
  }
  const CLI::App& command = *chosen.front();
  const std::string help = fmt::format("kvik {} --help", command.get_name());
  const bool has_extra = !extra.empty() && dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (!has_extra) return fmt::format("{}: {}; see {}", command.get_name(), error.what(), help);
  if (extra.size() < 2 || !extra.starts_with('-'))
    return fmt::format("{}: unexpected argument '{}'; see {}", command.get_name(), extra, help);
  const std::string name = extra.substr(0, extra.find('='));
  return fmt::format("'{}' has no option '{}'; {}", command.get_name(), name, or_suggestion(nearest(name, options_of(command)), help));
}

}  // namespace kvik::cli

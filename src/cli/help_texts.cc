#include "cli/help_texts.h"

#include <algorithm>

namespace kvik::cli {
namespace {

OptionText text_of_option(const CLI::Option& option) {
  OptionText text;
  text.positional = option.get_positional();
  text.required = option.get_required();
  text.description = option.get_description();
  text.argument = CLI::detail::trim_copy(option.get_option_text());
  if (text.positional) {
    text.names.push_back(option.get_name(true, false));
    return text;
  }
  for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  if (text.argument.empty() && option.get_items_expected_max() > 0) text.argument = option.get_type_name();
  return text;
}

}  // namespace

std::vector<std::string> OptionText::choices() const {
  if (argument.find('|') == std::string::npos) return {};
  return CLI::detail::split(argument, '|');
}

bool OptionText::takes_file() const { return argument.starts_with("FILE") || argument.starts_with("F.") || argument == "FOLDER"; }

bool CommandText::takes_model() const {
  const auto is_model = [](const std::string& word) { return word == "MODEL" || word == "--model"; };
  return std::any_of(options.begin(), options.end(),
                     [&](const OptionText& option) { return std::any_of(option.names.begin(), option.names.end(), is_model); });
}

std::vector<std::string> CommandText::words() const {
  std::vector<std::string> words;
  for (const OptionText& option : options) {
    if (!option.positional) continue;
    const std::vector<std::string> choices = option.choices();
    words.insert(words.end(), choices.begin(), choices.end());
  }
  return words;
}

CommandText text_of(const CLI::App& app) {
  CommandText text{app.get_name(), app.get_description(), {}};
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) text.options.push_back(text_of_option(*option));
  }
  return text;
}

std::vector<CommandText> texts_of_commands(const CLI::App& app) {
  std::vector<CommandText> texts;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); }))
    texts.push_back(text_of(*command));
  return texts;
}

}  // namespace kvik::cli

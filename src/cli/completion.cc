#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/choices.h"
#include "cli/help_texts.h"
#include "cli/output.h"

namespace kvik::cli {
namespace {

std::vector<std::string> named(const CommandText& command) {
  std::vector<std::string> names;
  for (const OptionText& option : command.options) {
    if (!option.positional) names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return CLI::detail::find_and_replace(std::move(text), from, to);
}

// ---- bash

constexpr const char* kBash = R"sh(# bash completion of kvik: source <(kvik completion bash)
_kvik() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} options words models
  COMPREPLY=()
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W "@COMMANDS@ --help --version" -- "$word"))
    return
  fi
  case "${COMP_WORDS[1]}" in
@CASES@  esac
  if [ "${word#-}" != "$word" ]; then
    COMPREPLY=($(compgen -W "$options" -- "$word"))
  else
    [ -z "$models" ] || words=$("${COMP_WORDS[0]}" models 2>/dev/null | awk 'NR > 1 { if (!NF) exit; print $1 }')
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  fi
}
complete -o bashdefault -o default -F _kvik kvik
)sh";

std::string bash_values(const CommandText& command) {
  std::string cases;
  for (const OptionText& option : command.options) {
    if (option.argument.empty() || option.positional) continue;
    const std::string pattern = fmt::format("{}", fmt::join(option.names, "|"));
    if (option.takes_file()) {
      cases += fmt::format("        {}) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n", pattern);
    } else {
      cases +=
          fmt::format("        {}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;;\n", pattern, fmt::join(option.choices(), " "));
    }
  }
  return cases.empty() ? "" : "      case \"$previous\" in\n" + cases + "      esac\n";
}

std::string bash(const std::vector<CommandText>& commands) {
  std::vector<std::string> names;
  std::string cases;
  for (const CommandText& command : commands) {
    names.push_back(command.name);
    cases += fmt::format("    {})\n{}      options=\"{}\" words=\"{}\" models={} ;;\n", command.name, bash_values(command),
                         fmt::join(named(command), " "), fmt::join(command.words(), " "), command.takes_model() ? "yes" : "");
  }
  return replaced(replaced(kBash, "@COMMANDS@", fmt::format("{}", fmt::join(names, " "))), "@CASES@", cases);
}

// ---- zsh

constexpr const char* kZsh = R"sh(#compdef kvik
_kvik_models() {
  compadd -- ${(f)"$(kvik models 2>/dev/null | awk 'NR > 1 { if (!NF) exit; print $1 }')"}
  _files
}
_kvik() {
  local -a commands=(
@COMMANDS@  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
@CASES@  esac
}
if [ "$funcstack[1]" = _kvik ]; then _kvik "$@"; else compdef _kvik kvik; fi
)sh";

std::string zsh_quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

std::string zsh_option(const OptionText& option) {
  std::string argument;
  if (option.takes_file()) {
    argument = ":file:_files";
  } else if (!option.argument.empty()) {
    argument = fmt::format(":value:({})", fmt::join(option.choices(), " "));
  }
  const std::string description = replaced(replaced(option.description, "[", "("), "]", ")");
  std::string specs;
  for (const std::string& name : option.names) specs += " \\\n        " + zsh_quoted(fmt::format("*{}[{}]{}", name, description, argument));
  return specs;
}

std::string zsh(const std::vector<CommandText>& commands) {
  std::string names, cases;
  for (const CommandText& command : commands) {
    names += "    " + zsh_quoted(command.name + ":" + command.description) + "\n";
    cases += fmt::format("    {})\n      _arguments", command.name);
    for (const OptionText& option : command.options) {
      if (!option.positional) cases += zsh_option(option);
    }
    const std::string words = command.words().empty() ? "_files" : fmt::format("({})", fmt::join(command.words(), " "));
    cases += fmt::format(" \\\n        '*: :{}' ;;\n", command.takes_model() ? "_kvik_models" : words);
  }
  return replaced(replaced(kZsh, "@COMMANDS@", names), "@CASES@", cases);
}

// ---- fish

constexpr const char* kFish = R"sh(# fish completion of kvik: kvik completion fish | source
function __kvik_models
  kvik models 2>/dev/null | awk 'NR > 1 { if (!NF) exit; print $1 }'
end
)sh";

std::string fish_quoted(const std::string& text) { return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'"; }

std::string fish_option(const std::string& command, const OptionText& option) {
  std::string line = fmt::format("complete -c kvik -n '__fish_seen_subcommand_from {}'", command);
  for (const std::string& name : option.names)
    line += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2)) : fmt::format(" -s {}", name.substr(1));
  if (option.takes_file()) {
    line += " -r -F";
  } else if (!option.argument.empty()) {
    line += fmt::format(" -x -a '{}'", fmt::join(option.choices(), " "));
  }
  return line + " -d " + fish_quoted(option.description) + "\n";
}

std::string fish(const std::vector<CommandText>& commands) {
  std::string text = kFish;
  for (const CommandText& command : commands) {
    text += fmt::format("complete -c kvik -f -n __fish_use_subcommand -a {} -d {}\n", command.name, fish_quoted(command.description));
    for (const OptionText& option : command.options) {
      if (!option.positional) text += fish_option(command.name, option);
    }
    const std::string words = fmt::format("{}", fmt::join(command.words(), " "));
    text += fmt::format("complete -c kvik -n '__fish_seen_subcommand_from {}' -a '{}'\n", command.name,
                        command.takes_model() ? "(__kvik_models)" : words);
  }
  return text;
}

int completion(const CLI::App& app, const std::string& shell) {
  const std::vector<CommandText> commands = texts_of_commands(app);
  print_text(shell == "bash" ? bash(commands) : shell == "zsh" ? zsh(commands) : fish(commands));
  return 0;
}

}  // namespace

void add_completion(Commands commands) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = commands.app.add_subcommand("completion", "Print a shell completion script");
  command->add_option("SHELL", *shell, "Shell")->required()->check(one_of({"bash", "zsh", "fish"}))->option_text("bash|zsh|fish");
  command->callback([commands, shell] { commands.run = [=] { return completion(commands.app, *shell); }; });
}

}  // namespace kvik::cli

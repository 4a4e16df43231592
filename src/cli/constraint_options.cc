#include "base/mapped_file.h"
#include "cli/target_options.h"

namespace kvik::cli {
namespace {

std::string text_of_file(const std::string& file) { return std::string(MappedFile::open(file)->text()); }

}  // namespace

void add_constraint_options(CLI::App& command, GenerateOptions& options) {
  const auto add = [&](const char* flag, const char* value_name, const char* help, auto make) {
    const auto read = [&options, make](const CLI::results_t& values) {
      options.constraint = make(values.front());
      return true;
    };
    return command.add_option(flag, read, help)->option_text(value_name);
  };
  CLI::Option* const schema =
      add("--json-schema", "FILE", "Generate JSON that satisfies this schema; a value that begins with { is the schema itself",
          [](const std::string& value) {
            const bool is_schema = value.starts_with('{');
            return Constraint::json_schema(is_schema ? value : text_of_file(value));
          });
  CLI::Option* const grammar = add("--grammar", "FILE", "Generate text that matches this grammar (GBNF)",
                                   [](const std::string& value) { return Constraint::grammar(text_of_file(value)); });
  CLI::Option* const regex = add("--regex", "PATTERN", "Generate text that matches this regular expression as a whole",
                                 [](const std::string& value) { return Constraint::regex(value); });
  schema->excludes(grammar)->excludes(regex);
  grammar->excludes(regex);
}

}  // namespace kvik::cli

#pragma once

#include <string>

#include "cli/command.h"
#include "kvik/kvik.h"

// Options of every command that runs a model.
namespace kvik::cli {

struct ModelOptions {
  std::string model;
  LoadOptions load;
  bool no_compile_cache = false;
};

// The positional MODEL, --backend, --device, --weights, --kv, --isa, --threads, --context, --ort-lib, --variant; and those of
// add_common_options().
void add_model_options(CLI::App& command, ModelOptions& options, Terminal& terminal);
// Without the positional MODEL.
void add_load_options(CLI::App& command, ModelOptions& options, Terminal& terminal);
void add_weights_option(CLI::App& command, const std::string& name, Weights& weights, const std::string& help);

// Loads the model and prints what the library logs.
Model load_model(const ModelOptions& options, const Terminal& terminal);

// "1,2,3", "1 2 3" or "[1, 2, 3]"; throws Error(kBadArgument) for anything else.
std::vector<TokenId> parse_ids(const std::string& text);
inline constexpr const char* kIdSeparators = ", \t\r\n[]";

// The most memory that the process has used so far.
size_t peak_resident_bytes();

}  // namespace kvik::cli

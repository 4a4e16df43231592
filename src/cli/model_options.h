#pragma once

#include <string>

#include "cli/command.h"
#include "kvik/kvik.h"

// Options that every command which runs a model knows, and their reading.
namespace kvik::cli {

struct ModelOptions {
  std::string model;
  LoadOptions load;
};

// The positional MODEL, --backend, --device, --weights, --kv, --isa, --threads, --context, --ort-lib, --variant; and those of
// add_common_options().
void add_model_options(CLI::App& command, ModelOptions& options, Terminal& terminal);
// The same without the positional MODEL.
void add_load_options(CLI::App& command, ModelOptions& options, Terminal& terminal);

// Sampling and stopping, named as in Hugging Face.
void add_sampling_options(CLI::App& command, GenerateOptions& options);

// Loads with the terminal's log, and a note on standard error while it takes long.
Model load_model(const ModelOptions& options, const Terminal& terminal);

// "1,2,3", "1 2 3" or "[1, 2, 3]"; throws Error(kBadArgument) for anything else.
std::vector<TokenId> parse_ids(const std::string& text);

// The whole of standard input.
std::string read_standard_input();

// The most memory the process has held so far.
size_t peak_resident_bytes();

}  // namespace kvik::cli

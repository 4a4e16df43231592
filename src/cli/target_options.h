#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "cli/model_options.h"

// Options and results of commands that generate: run, chat, translate, transcribe.
namespace kvik::cli {

// --max-tokens, --stop, --stop-ids, --ignore-eos and the beam search.
void add_generation_options(CLI::App& command, GenerateOptions& options);
void add_generation_options(CLI::App& command, TranslateOptions& options);

// --json-schema, --grammar and --regex, of commands that continue prompts.
void add_constraint_options(CLI::App& command, GenerateOptions& options);

// --speculate and --draft, of commands that continue prompts.
struct SpeculationOptions {
  Speculate speculate = Speculate::kOff;
  std::string draft;                     // path or name; empty: none
  Weights draft_weights = Weights::kQ4;  // the output does not depend on them
  bool any() const { return speculate != Speculate::kOff || !draft.empty(); }
};
void add_speculation_options(CLI::App& command, SpeculationOptions& options);
// Loads the draft model: its own weights format, else the options of the model that it proposes for.
void apply(const SpeculationOptions& options, const ModelOptions& model, const Terminal& terminal, GenerateOptions& generate);
// ", 12 of 20 proposed tokens accepted (1.8 tokens per run)"; empty if none were proposed.
std::string describe_speculation(const Metrics& metrics);

// One flag per line of sampling_fields(). `with_encoder`: also those that only make sense with a source.
void add_sampling_options(CLI::App& command, Sampling& sampling, bool with_encoder);

// What is shown of a hypothesis: its text, or its ids if there is no tokenizer.
std::string shown(const Model& model, const Hypothesis& hypothesis);

// {"ids": …, "text": …, "score": …, "finish": "stop" or "length"}
Json to_json(const Hypothesis& hypothesis);
// The best of them, and all if there are several.
void add_json(Json& entry, const std::vector<Hypothesis>& hypotheses);

// Features from a .npy file, one source for each of its batch; `rank` axes are those of one source.
std::vector<Features> read_features(const std::string& path, int rank);

}  // namespace kvik::cli

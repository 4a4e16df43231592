#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/model_options.h"
#include "tensor/tensor.h"

// What commands that search for a target (translate, transcribe) share: how it is searched for, what is banned and what is forced.
namespace kvik::cli {

struct TargetOptions {
  GenerateOptions generate;                             // sampling, stopping, the most new tokens
  TranslateOptions search;                              // all the rest, but for
  std::vector<std::string> bad_words;                   // one list of ids each
  std::optional<std::string> suppress, begin_suppress;  // lists of ids; empty: none

  // All of it, as the library takes it. Throws Error(kBadArgument) for what is no list of ids.
  TranslateOptions settled() const;
};

void add_target_options(CLI::App& command, TargetOptions& options);
// Of these only --beams, --length-penalty and --early-stopping.
void add_beam_options(CLI::App& command, TargetOptions& options);

// What is shown of a hypothesis: its text; ids with commas between them where there is no tokenizer.
std::string shown(const Model& model, const Hypothesis& hypothesis);

// {"ids": …, "text": …, "score": …, "finish": "stop" or "length"}
Json to_json(const Hypothesis& hypothesis);
// The best of them, and all where there are several.
void add_json(Json& entry, const std::vector<Hypothesis>& hypotheses);

// Features from a .npy file, one source for each of its batch; `rank` is what the encoder reads, batch axis included.
std::vector<Tensor> read_features(const std::string& path, size_t rank);

}  // namespace kvik::cli

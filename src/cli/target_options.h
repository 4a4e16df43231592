#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/state.h"
#include "base/json.h"
#include "cli/model_options.h"
#include "engine/translate.h"

// What commands that search for a target (translate, transcribe) share: how it is searched for, what is banned and what is forced.
namespace kvik::cli {

struct TargetOptions {
  GenerateOptions generate;  // sampling, stopping, the most new tokens
  std::optional<int> beams, returned;
  std::optional<double> length_penalty;
  std::optional<sample::EarlyStopping> early_stopping;
  std::optional<int> min_length, min_new_tokens, encoder_no_repeat_ngram_size;
  std::optional<double> encoder_repetition_penalty;
  std::optional<TokenId> decoder_start, forced_bos, forced_eos;  // -1: none, whatever the config says
  std::vector<std::string> bad_words;                            // one list of ids each
  std::optional<std::string> suppress, begin_suppress;           // lists of ids; empty: none
};

void add_target_options(CLI::App& command, TargetOptions& options);
// Of these only --beams, --length-penalty and --early-stopping.
void add_beam_options(CLI::App& command, TargetOptions& options);

// The same, with what the model's files say where the user said nothing.
struct Target {
  sample::SamplingOptions sampling;
  engine::TranslateOptions translate;  // without start tokens and the largest length, which depend on the source
  int max_new_tokens = 0;
};
// Throws Error(kBadArgument) where options exclude each other.
Target make_target(const Model& model, const TargetOptions& options, const Log& log);

// How many beams are searched, by the command line or the config; 1: tokens are chosen one by one. Throws as above.
int beams_of(const Model& model, const TargetOptions& options, const Log& log);

// Text without what follows a stop text; ids with commas between them where there is no tokenizer.
std::string text_of(const Model& model, const sample::Hypothesis& hypothesis, const TargetOptions& options);

// {"ids": …, "text": …, "score": …, "finish": "stop" or "length"}
Json to_json(const Model& model, const sample::Hypothesis& hypothesis, const Target& target, const TargetOptions& options);

// Features from a .npy file, one source for each of its batch; `rank` is what the encoder reads, batch axis included.
std::vector<Tensor> read_features(const std::string& path, size_t rank);

}  // namespace kvik::cli

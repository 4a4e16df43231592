#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/state.h"
#include "engine/targets.h"

// What generate, translate and transcribe share: the caller's options joined with what the model's files say.
namespace kvik::api {

// The fields that GenerateOptions and TranslateOptions have in common, as views.
struct TargetRequest {
  const std::optional<int>& max_tokens;
  const Sampling& sampling;
  const std::optional<int>& beams;
  const std::optional<double>& length_penalty;
  const std::optional<EarlyStopping>& early_stopping;
  const std::vector<std::string>& stop;
  const std::vector<TokenId>& stop_ids;
  bool ignore_eos;
  const std::optional<Constraint>& constraint;
  std::optional<int> num_return_sequences = {};
  std::optional<TokenId> decoder_start = {};
  std::optional<sample::TimestampRules> timestamps = {};
};
TargetRequest request_of(const GenerateOptions& options);
TargetRequest request_of(const TranslateOptions& options);

struct TargetSetup {
  std::shared_ptr<const sample::Sampler> sampler;
  engine::TargetOptions options;  // without max_length; the start is the decoder's start token, if there is one
  int max_new_tokens = 0;
  std::vector<std::string> stop;  // texts, none empty

  bool searches_beams() const { return options.beams.num_beams > 1; }
};

// `n_start`: tokens before the first new one. Throws Error(kBadArgument) if options exclude each other or are out of range.
TargetSetup make_target_setup(const Model::State& state, const TargetRequest& request, int n_start);

// Throws Error if a prompt is empty or does not fit a context of `capacity` positions; 0: unknown.
void check_prompt(size_t n_tokens, int capacity);

// How a generation from a prompt chooses its tokens: a SampleStrategy whose text ends before stop texts, or a search with beams.
std::unique_ptr<engine::Strategy> new_strategy(const Model::State& state, TargetSetup& setup, size_t n_prompt, int capacity);
size_t longest_sequence(const TargetSetup& setup, int capacity);  // prompt included; after new_strategy()

// A target with its text, which ends before a stop text, and why it ended. `skip` selects tokens that are not text.
using Skip = std::function<bool(TokenId)>;
Hypothesis describe(const Model::State& state, const TargetSetup& setup, const engine::Target& target, const Skip& skip = nullptr);

// Throws Error(kBadArgument) for a value that its enumeration does not have; `last` is its last one.
template <class Enum>
void check_enum(Enum value, Enum last, const char* name) {
  if (static_cast<int>(value) >= 0 && static_cast<int>(value) <= static_cast<int>(last)) return;
  throw Error(Code::kBadArgument, std::string(name) + " is " + std::to_string(static_cast<int>(value)) + "; 0 to " +
                                      std::to_string(static_cast<int>(last)) + " was expected");
}

}  // namespace kvik::api

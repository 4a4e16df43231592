#pragma once

#include "api/state.h"
#include "engine/translate.h"

// What everything that searches for a target shares: how it is searched for, what is banned and what is forced.
namespace kvik::api {

// The caller's options, with what the model's files say where the caller said nothing.
struct Target {
  sample::SamplingOptions sampling;
  engine::TranslateOptions translate;  // the start is the decoder's start token, where one is known
  int max_new_tokens = 0;
  std::vector<std::string> stop;  // texts, none empty
};

// `state` must outlive what comes back. Throws Error(kBadArgument) where options exclude each other or are out of range.
Target make_target(const ModelAccess::State& state, const TranslateOptions& options);

// How many beams are searched, by the options or the config; 1: tokens are chosen one by one. Throws as above.
int beams_of(const ModelAccess::State& state, const TranslateOptions& options);

// A hypothesis with its text, which ends before a stop text, and why it ended. `skips` tells tokens that are no text.
using Skips = std::function<bool(TokenId)>;
Hypothesis describe(const ModelAccess::State& state, const Target& target, const sample::Hypothesis& found, const Skips& skips = nullptr);

}  // namespace kvik::api

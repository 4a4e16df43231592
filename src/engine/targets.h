#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "constrain/matcher.h"
#include "engine/decoder.h"
#include "engine/sources.h"
#include "engine/text_output.h"

namespace kvik::engine {

// How the targets of prompts or sources are generated.
struct TargetOptions {
  // num_beams 1: token by token; then num_return_sequences counts samples. max_length includes the start.
  sample::BeamOptions beams;
  bool always_beams = false;    // use a beam search even for width 1, to test that it equals greedy search
  std::vector<TokenId> start;   // the decoder's start tokens
  NewTextOutput text;           // for stop texts, without beams only; may be empty
  bool scores = true;           // compute scores without beams; beams always have scores
  std::optional<int> logprobs;  // without beams only
  std::shared_ptr<constrain::TokenConstraint> constraint = nullptr;  // null: any tokens
  uint64_t seed = 0;
};

// The prompt or source of one stream.
struct TargetSource {
  size_t prompt_length = 0;
  std::vector<TokenId> tokens;  // the encoder's input
  uint64_t stream = 0;          // random number stream
};

std::unique_ptr<Strategy> new_strategy(const std::shared_ptr<const sample::Sampler>& sampler, const TargetOptions& options,
                                       TargetSource source);

// A stream that generates the targets of a source.
Stream target_stream(const std::shared_ptr<Decoder>& decoder, const std::shared_ptr<const sample::Sampler>& sampler,
                     const EncodedSource& source, const TargetOptions& options);

// The targets of one source, best first; none if it was cancelled.
struct FoundTargets {
  std::vector<Target> targets;
  Finish finish = Finish::kStop;
};

// All sources step together. `cancelled` is polled between steps.
std::vector<FoundTargets> find_targets(const std::shared_ptr<Decoder>& decoder, const std::shared_ptr<const sample::Sampler>& sampler,
                                       std::span<const EncodedSource> sources, const TargetOptions& options,
                                       const std::function<bool()>& cancelled = nullptr);

}  // namespace kvik::engine

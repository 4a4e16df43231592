#pragma once

#include <gtest/gtest.h>

#include "base/json.h"
#include "engine/generation_config.h"
#include "engine/targets.h"
#include "support/models.h"

// What the tests of encoder-decoders share.
namespace kvik::engine {

using Ids = std::vector<TokenId>;

struct Loaded {
  std::shared_ptr<backend::Backend> backend;  // null if ONNX Runtime is not installed
  GenerationConfig config;

  std::shared_ptr<Decoder> decoder() const { return std::make_shared<Decoder>(backend); }
  std::shared_ptr<const sample::Sampler> sampler() const {
    return std::make_shared<sample::Sampler>(config.sampling,
                                             sample::TokenRules{static_cast<size_t>(backend->traits().vocab), config.eos, {}});
  }
};

inline Loaded load(const std::filesystem::path& folder, bool ort) {
  return {ort ? testing_support::open_ort(folder) : testing_support::open_reference(folder),
          read_generation_config(analysis::analyze(folder))};
}

// What a test wants of a search; the rest is as the model's files say.
struct Wanted {
  int beams = 1;
  size_t max_new = 24;
  Ids start = {};  // empty: from the config
};

inline TargetOptions options_for(const Loaded& model, const Wanted& wanted) {
  TargetOptions options;
  options.start = wanted.start.empty() ? Ids{*model.config.decoder_start} : wanted.start;
  options.beams = {.num_beams = wanted.beams, .max_length = options.start.size() + wanted.max_new, .eos_token_id = model.config.eos};
  return options;
}

inline std::vector<Ids> best_of(const std::vector<FoundTargets>& found) {
  std::vector<Ids> best;
  for (const FoundTargets& one : found) best.push_back(one.targets.front().ids);
  return best;
}

inline std::vector<FoundTargets> targets_of(const Loaded& model, const std::vector<Ids>& sources, const TargetOptions& options) {
  return find_targets(model.decoder(), model.sampler(), encode_tokens(*model.backend, sources), options);
}

inline std::vector<Ids> translated(const Loaded& model, const std::vector<Ids>& sources, const Wanted& wanted) {
  return best_of(targets_of(model, sources, options_for(model, wanted)));
}

// Elements by the formula of the fixtures: x[i] = ((i * 37) % 101) / 50 - 1.
inline Tensor made_by_formula(const Dims& dims) {
  Tensor tensor(DType::kF32, dims);
  const std::span<float> values = tensor.mutable_data<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(static_cast<double>(i * 37 % 101) / 50 - 1);
  return tensor;
}

}  // namespace kvik::engine

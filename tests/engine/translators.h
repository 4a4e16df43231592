#pragma once

#include <gtest/gtest.h>

#include "base/json.h"
#include "engine/generation_config.h"
#include "engine/translate.h"
#include "support/models.h"

// What the tests of encoder-decoders share.
namespace kvik::engine {

using Ids = std::vector<TokenId>;

struct Loaded {
  std::shared_ptr<backend::Backend> backend;  // null where ONNX Runtime is not at hand
  GenerationConfig config;
};

inline Loaded load(const std::filesystem::path& folder, bool ort) {
  return {ort ? testing_support::open_ort(folder) : testing_support::open_reference(folder),
          read_generation_config(analysis::analyse(folder))};
}

// What a test wants of a search; the rest is as the model's files say.
struct Wanted {
  int beams = 1;
  size_t max_new = 24;
  Ids start = {};  // empty: as the config says
};

inline TranslateOptions options_for(const Loaded& model, const Wanted& wanted) {
  TranslateOptions options;
  options.search.start = wanted.start.empty() ? Ids{*model.config.decoder_start} : wanted.start;
  options.search.beams = {.num_beams = wanted.beams,
                          .max_length = options.search.start.size() + wanted.max_new,
                          .eos_token_id = model.config.sampling.eos_token_id};
  return options;
}

inline std::vector<Ids> best_of(const std::vector<Hypotheses>& found) {
  std::vector<Ids> best;
  for (const Hypotheses& one : found) best.push_back(one.front().ids);
  return best;
}

inline std::vector<Ids> translated(const Loaded& model, const std::vector<Ids>& sources, const Wanted& wanted) {
  const sample::Sampler sampler(model.config.sampling, static_cast<size_t>(model.backend->traits().vocab));
  return best_of(translate(*model.backend, sources, sampler, options_for(model, wanted)));
}

// Elements by the formula of the fixtures: x[i] = ((i * 37) % 101) / 50 - 1.
inline Tensor made_by_formula(const Dims& dims) {
  Tensor tensor(DType::kF32, dims);
  const std::span<float> values = tensor.mutable_data<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(static_cast<double>(i * 37 % 101) / 50 - 1);
  return tensor;
}

}  // namespace kvik::engine

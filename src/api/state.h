#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "analysis/signature.h"
#include "backend/backend.h"
#include "base/log.h"
#include "engine/generation_config.h"
#include "engine/generator.h"
#include "kvik/kvik.h"
#include "text/chat_template.h"
#include "text/stop.h"
#include "text/stream.h"
#include "text/tokenizer.h"

// What stands behind the handles of kvik.h.
namespace kvik {

inline constexpr int kDefaultNewTokens = 256;  // where neither the caller nor the model says

template <class T, class U>
void set_where_given(T& target, const std::optional<U>& wanted) {
  if (wanted) target = *wanted;
}

// Of options that hold them beside others: flat, so that a caller can name any of them in one initialiser.
template <class Options>
SampleOptions sampling_of(const Options& o) {
  return {o.temperature,          o.top_k,      o.top_p, o.min_p, o.repetition_penalty, o.presence_penalty, o.frequency_penalty,
          o.no_repeat_ngram_size, o.logit_bias, o.seed};
}

struct Model::State {
  LoadOptions options;
  analysis::Signature signature;
  std::shared_ptr<backend::Backend> backend;
  engine::GenerationConfig config;
  std::shared_ptr<const text::Tokenizer> tokenizer;  // null where the folder has none
  text::ChatTemplate chat_template;                  // empty where the folder has none
  size_t weights_bytes = 0;
  double load_ms = 0;

  // The config's sampling with what the caller set on top, checked.
  sample::SamplingOptions sampling(const SampleOptions& wanted) const;
  void ban_unreadable(sample::SamplingOptions& chosen) const;  // what the backend cannot continue from
  int max_new_tokens(const GenerateOptions& options, int n_prompt) const;
  const std::string& identity() const;  // tells its files from those of other models

  // Throw Error(kBadArgument) where there is no tokenizer.
  std::vector<TokenId> tokenize(std::string_view text, const text::EncodeOptions& options) const;
  std::string detokenize(std::span<const TokenId> ids, bool skip_special = true) const;

  // Throws Error(kUnsupported) for a model that continues a source and not a prompt.
  void check_continues_prompts() const;

 private:
  mutable std::once_flag identified_;
  mutable std::string identity_;
};

struct Session::State {
  std::shared_ptr<const Model::State> model;
  engine::Sequence sequence;
  sample::Workspace workspace;
  std::vector<float> row;          // the sampler writes into it
  std::optional<sample::Rng> rng;  // of sample(); made from the first seed it is given
  std::optional<uint64_t> seed;
  Metrics metrics;
};

struct Generation::State {
  std::shared_ptr<const Model::State> model;
  std::optional<engine::Sequence> own;  // when it does not continue a session
  engine::Sequence* sequence = nullptr;
  sample::Sampler sampler;
  sample::Rng rng;
  std::optional<engine::Generator> generator;
  std::optional<text::DetokenizerStream> stream;
  text::StopMatcher stops;
  std::vector<TokenId> prompt_ids;
  std::vector<TokenId> ids;
  std::string piece;
  bool ended = false;
};

// For the command line and the tests, which look inside.
struct ModelAccess {
  using State = Model::State;
  static const Model::State& state(const Model& model) { return *model.state_; }
};

}  // namespace kvik

#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "analysis/signature.h"
#include "api/constraint_state.h"
#include "backend/backend.h"
#include "backend/embedder.h"
#include "base/log.h"
#include "engine/decoder.h"
#include "engine/embedding_config.h"
#include "engine/generation_config.h"
#include "engine/tree.h"
#include "kvik/kvik.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

// What is behind the handles of kvik.h.
namespace kvik {

struct Model::State {
  LoadOptions options;
  analysis::Signature signature;
  std::shared_ptr<engine::Decoder> decoder;  // the one decode loop, shared by all sessions
  engine::GenerationConfig config;
  std::shared_ptr<const text::Tokenizer> tokenizer;  // null if the folder has none
  text::ChatTemplate chat_template;                  // empty if the folder has none
  engine::EmbeddingConfig embedding;                 // if the model embeds
  size_t weights_bytes = 0;
  double load_ms = 0;
  mutable api::ModelConstraints constraints;

  backend::Backend& backend() const { return decoder->backend(); }
  const backend::Traits& traits() const { return backend().traits(); }
  const std::string& identity() const;  // differs between models with different files

  // Throw Error(kBadArgument) if there is no tokenizer.
  std::vector<TokenId> tokenize(std::string_view text, const text::EncodeOptions& options) const;
  std::string detokenize(std::span<const TokenId> ids, bool skip_special = true) const;

  // Throws Error(kUnsupported) for a model that needs a source and does not continue prompts, or that only embeds.
  void check_continues_prompts() const;

  // Opened when it is first asked for; `pooled`: the vectors that the graph itself pools. Throws Error(kUnsupported) if the model does not
  // embed.
  std::shared_ptr<backend::Embedder> embedder(bool pooled) const;

 private:
  mutable std::mutex embedders_mutex_;
  mutable std::shared_ptr<backend::Embedder> embedders_[2];
  mutable std::once_flag identified_;
  mutable std::string identity_;
};

// What a stream measured; the rest is set by the caller.
Metrics metrics_of(const engine::Timing& timing);

struct Session::State {
  State(std::shared_ptr<const Model::State> of, engine::Sequence sequence);
  ~State();

  std::shared_ptr<const Model::State> model;
  engine::Stream stream;             // one branch; a strategy only while a generation continues it
  const void* generation = nullptr;  // the one that continues it
  engine::Tree tree;                 // of the last append_tree(); empty after any other change
  sample::Workspace workspace;
  std::optional<Sampling> sampling;  // of the last sample(), and what it made of it
  std::optional<sample::Sampler> sampler;
  std::optional<sample::Rng> rng;  // of sample(); made from the first seed it is given
  std::optional<uint64_t> seed;

  engine::Sequence& sequence() { return stream.branches.front(); }
  const engine::Sequence& sequence() const { return stream.branches.front(); }
  const sample::Sampler& sampler_for(const Sampling& wanted);
  // Before a change: takes the session from a generation that continues it, whose next() then throws, and ends a tree.
  void end_generation();
};

}  // namespace kvik

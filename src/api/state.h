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

// The state behind the handles of kvik.h.
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
  const std::string& identity() const;  // identifies the contents of the model's files

  // Throw Error(kBadArgument) if there is no tokenizer.
  std::vector<TokenId> tokenize(std::string_view text, const text::EncodeOptions& options) const;
  std::string detokenize(std::span<const TokenId> ids, bool skip_special = true) const;

  // Throws Error(kUnsupported) for a model that needs a source and does not continue prompts, or that only embeds.
  void check_continues_prompts() const;

  // Opened on first use. `pooled`: for vectors that the graph itself pools. Throws Error(kUnsupported) if the model does not embed.
  std::shared_ptr<backend::Embedder> embedder(bool pooled) const;

 private:
  mutable std::mutex embedders_mutex_;
  mutable std::shared_ptr<backend::Embedder> embedders_[2];
  mutable std::once_flag identified_;
  mutable std::string identity_;
};

// The measurements of a stream; the caller sets the other fields.
Metrics metrics_of(const engine::Timing& timing);

struct Session::State {
  State(std::shared_ptr<const Model::State> of, engine::Sequence sequence);
  ~State();

  std::shared_ptr<const Model::State> model;
  engine::Stream stream;             // one branch; a strategy only while a generation continues it
  const void* generation = nullptr;  // the generation that continues it
  engine::Tree tree;                 // of the last append_tree(); empty after any other change
  sample::Workspace workspace;
  std::optional<Sampling> sampling;  // of the last sample(), and the sampler made from it
  std::optional<sample::Sampler> sampler;
  std::optional<sample::Rng> rng;  // of sample(); created from its first seed
  std::optional<uint64_t> seed;

  engine::Sequence& sequence() { return stream.branches.front(); }
  const engine::Sequence& sequence() const { return stream.branches.front(); }
  const sample::Sampler& sampler_for(const Sampling& wanted);
  // Called before a change: detaches a generation that continues the session, whose next() then throws, and clears the tree.
  void end_generation();
};

}  // namespace kvik

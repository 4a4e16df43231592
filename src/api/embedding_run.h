#pragma once

#include <string>
#include <vector>

#include "api/call.h"
#include "api/state.h"
#include "base/log.h"
#include "kvik/kvik.h"

namespace kvik::api {

// Logs the problems of a model, except that an embedding model cannot generate.
void log_problems(const analysis::Signature& signature, const Log& log);

// The embedder that embed() uses unless an option selects another.
backend::Embedder& default_embedder(const Model::State& state);

// The maximum number of tokens of a text; 0: unknown.
int most_tokens(const Model::State& state, const backend::EmbedderTraits& traits);

// One call of Model::embed(): add the texts, then run it.
class EmbeddingRun final : public Call<std::vector<Embedding>>, private engine::Work {
 public:
  // Throws Error if the model does not embed, or if the pooling is not specified.
  EmbeddingRun(std::shared_ptr<const Model::State> state, EmbedOptions options);

  int size() const { return options_.dimensions > 0 ? options_.dimensions : full_size(); }  // of a vector

  // Throw Error for a text that has no tokens, is too long, or has ids outside the vocabulary.
  void add_text(std::string_view text);
  void add_ids(std::vector<TokenId> ids);

  // On the calling thread; in the order of the texts.
  std::vector<Embedding> run();
  std::vector<HiddenStates> run_hidden_states();  // instead of pooled vectors; only if the graph does not pool

  engine::Work& work() override;  // after the last text was added
  std::function<bool()> cancelled() const override { return options_.cancelled; }
  std::vector<Embedding> result(bool /*cancelled*/) override { return std::move(results_); }

 private:
  int full_size() const;
  bool normalizes() const;
  std::string prompt_text() const;
  int64_t count_prompt() const;
  std::vector<TokenId> cut(std::vector<TokenId> ids, std::string_view text) const;
  void add(std::vector<TokenId> ids);

  engine::NextPart next() const override { return n_begun_ < texts_.size() ? engine::NextPart::kReady : engine::NextPart::kNone; }
  size_t next_rows() const override { return texts_[n_begun_].size(); }
  engine::Part begin() override;
  backend::Embedder* embedder() const override { return embedder_.get(); }
  void embedded(const engine::Part& part, Tensor hidden) override;
  void finished(const engine::Part& /*part*/) override {}
  std::vector<float> vector_of(const Tensor& hidden, int64_t n_skipped) const;

  std::shared_ptr<const Model::State> state_;
  EmbedOptions options_;
  std::vector<engine::Pooling> pooling_;  // empty: the graph pools
  std::shared_ptr<backend::Embedder> embedder_;
  std::string prompt_;
  int64_t n_prompt_ = 0;  // prompt tokens to leave out of means
  int most_ = 0;          // maximum tokens of a text; 0: unknown
  std::vector<std::vector<TokenId>> texts_;
  std::vector<bool> has_prompt_;
  size_t n_begun_ = 0, n_done_ = 0;
  std::vector<HiddenStates>* hidden_ = nullptr;  // if these are requested instead
  std::vector<Embedding> results_;
};

}  // namespace kvik::api

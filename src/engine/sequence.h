#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/token.h"

namespace kvik::engine {

enum class Appended { kDone, kContextFull, kCancelled };

// Asked between chunks of a prompt.
struct AppendWatch {
  std::function<void(int done, int total)> progress;
  std::function<bool()> cancelled;
};

// Tokens and their cache, moving together. Used by one thread at a time.
class Sequence {
 public:
  // `context`: positions at most; 0: as many as the model has.
  Sequence(std::shared_ptr<backend::Backend> backend, int context, std::shared_ptr<const backend::Source> source = nullptr);

  Sequence(Sequence&&) = default;
  Sequence& operator=(Sequence&&) = default;

  int length() const { return static_cast<int>(tokens_.size()); }
  int capacity() const { return capacity_; }  // 0: no limit is known
  std::span<const TokenId> tokens() const { return tokens_; }
  size_t cache_bytes() const { return cache_->size_bytes(); }
  backend::Backend& backend() const { return *backend_; }

  // Room is checked before anything runs. All tokens or none: a failure or a cancellation leaves the sequence as it was.
  Appended append(std::span<const TokenId> tokens, const AppendWatch& watch = {});

  // Of the last position, valid until the sequence changes. After a rewind the last token is computed again, once.
  std::span<const float> logits();

  Sequence fork() const;

  // What it takes to go on elsewhere as if it had never left: the tokens and these. Logits are empty where they are not known.
  std::vector<Tensor> contents() const { return backend_->contents(*cache_); }
  std::span<const float> known_logits() const { return last_row_ == nullptr ? std::span<const float>() : *last_row_; }
  // A new sequence from those. Throws Error(kBadArgument) where they do not fit the model.
  static Sequence restored(std::shared_ptr<backend::Backend> backend, int context, std::span<const TokenId> tokens,
                           std::span<const Tensor> contents, std::span<const float> logits);

  void rewind(int length);

  // One run for several sequences: a token for each. All or none, as above.
  static Appended append_each(std::span<Sequence* const> sequences, std::span<const TokenId> tokens);

  // Logits of every one of `tokens`, appended to what is there; `see(i, row)` gets the row after tokens[i]. For scoring.
  Appended append_and_see(std::span<const TokenId> tokens, const std::function<void(int i, std::span<const float> row)>& see,
                          const AppendWatch& watch = {});

 private:
  using SharedRow = std::shared_ptr<std::vector<float>>;

  Appended run_chunks(std::span<const TokenId> tokens, const std::function<void(int, std::span<const float>)>& see,
                      const AppendWatch& watch);

  std::shared_ptr<backend::Backend> backend_;
  std::shared_ptr<const backend::Source> source_;
  std::unique_ptr<backend::Cache> cache_;
  int capacity_ = 0;
  std::vector<TokenId> tokens_;
  SharedRow last_row_;      // shared by forks; null when not known
  backend::Logits buffer_;  // reused from step to step
};

}  // namespace kvik::engine

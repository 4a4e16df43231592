#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/token.h"
#include "engine/logits.h"
#include "kvik/options.h"

namespace kvik::engine {

class Decoder;

// Callbacks of the caller, between two runs.
struct Watch {
  std::function<void(int done, int total)> progress;
  std::function<bool()> cancelled;
};

// Tokens and their cache. Tokens at the end that the cache does not hold yet are pending: chosen or given, computed by the next run.
// Used by one thread at a time.
class Sequence {
 public:
  // `context`: most positions; 0: as many as the model has.
  Sequence(std::shared_ptr<Decoder> decoder, int context, std::shared_ptr<const backend::Source> source = nullptr);
  // With its own decoder.
  Sequence(std::shared_ptr<backend::Backend> backend, int context, std::shared_ptr<const backend::Source> source = nullptr);

  Sequence(Sequence&&) = default;
  Sequence& operator=(Sequence&&) = default;

  int length() const { return cache_->length(); }                                                              // computed positions
  int capacity() const { return capacity_; }                                                                   // 0: unknown
  std::span<const TokenId> tokens() const { return std::span(tokens_).first(static_cast<size_t>(length())); }  // computed ones
  std::span<const TokenId> all_tokens() const { return tokens_; }
  std::span<const TokenId> pending() const { return std::span(tokens_).subspan(static_cast<size_t>(length())); }
  size_t cache_bytes() const { return cache_->size_bytes(); }
  backend::Backend& backend() const;
  Decoder& decoder() const { return *decoder_; }

  // Computes tokens. If there is no room nothing runs; a failure or a cancellation leaves the sequence as it was.
  AppendStatus append(std::span<const TokenId> tokens, const Watch& watch = {});

  // The same, with the logits of every one of `tokens`: `see(i, row)` gets the row after tokens[i].
  using See = std::function<void(int i, std::span<const float> row)>;
  AppendStatus append_and_see(std::span<const TokenId> tokens, const See& see, const Watch& watch = {});

  // One run for several sequences, a token for each: all of them or none.
  static AppendStatus append_each(std::span<Sequence* const> sequences, std::span<const TokenId> tokens);

  // Of the last position, valid until the sequence changes. After a rewind the last token is computed again, once.
  std::span<const float> logits();
  std::span<const float> known_logits() const { return logits_ ? logits_.values() : std::span<const float>(); }

  Sequence fork() const;
  void rewind(int length);

  // What it takes to continue elsewhere: the tokens, the known logits and these.
  std::vector<Tensor> contents() const { return backend().contents(*cache_); }
  // A new sequence from those. Throws Error(kBadArgument) if they do not fit the model.
  static Sequence restored(const std::shared_ptr<Decoder>& decoder, int context, std::span<const TokenId> tokens,
                           std::span<const Tensor> contents, std::span<const float> logits);

  // ---- for the decode loop and its strategies
  bool has_room_for(size_t n_tokens) const { return capacity_ == 0 || tokens_.size() + n_tokens <= static_cast<size_t>(capacity_); }
  void push(TokenId token) {
    if (tokens_.size() == tokens_.capacity()) reserve(2 * tokens_.size() + kTokensAhead);
    tokens_.push_back(token);
  }
  void drop_pending() { tokens_.resize(static_cast<size_t>(length())); }
  void reserve(size_t n_tokens);  // room for this many tokens without another allocation
  void restart();                 // everything becomes pending
  // The last token becomes pending if its logits are not known.
  void need_logits();

 private:
  friend class Decoder;
  static constexpr size_t kTokensAhead = 1024;  // so that a thousand steps allocate once
  // What a failed append goes back to.
  struct Checkpoint {
    std::unique_ptr<backend::Cache> cache;  // null: the run that may fail is the first, and leaves the cache as it was
    int length = 0;
    LogitsRow logits;
  };
  Checkpoint checkpoint(bool several_runs) const;
  void roll_back(Checkpoint checkpoint);

  std::shared_ptr<Decoder> decoder_;
  std::shared_ptr<const backend::Source> source_;
  std::unique_ptr<backend::Cache> cache_;
  int capacity_ = 0;
  std::vector<TokenId> tokens_;
  LogitsRow logits_;  // of the last computed position; shared by forks; empty if not known
};

}  // namespace kvik::engine

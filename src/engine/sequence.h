#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/token.h"
#include "engine/logits.h"
#include "engine/token_list.h"
#include "engine/watch.h"
#include "kvik/options.h"

namespace kvik::engine {

class Decoder;

// Tokens and their cache. Trailing tokens that are not in the cache yet are pending; the next runs compute them. If either all or none of
// the tokens must be computed (a prompt after a reused prefix, a recomputation across a length switch), they go into a second cache, which
// replaces the first when nothing is pending; until then the sequence is unchanged. Used by one thread at a time.
class Sequence {
 public:
  // `context`: maximum positions; 0: the model's maximum.
  Sequence(std::shared_ptr<Decoder> decoder, int context, std::shared_ptr<const backend::Source> source = nullptr);
  // With its own decoder.
  Sequence(std::shared_ptr<backend::Backend> backend, int context, std::shared_ptr<const backend::Source> source = nullptr);

  Sequence(Sequence&&) = default;
  Sequence& operator=(Sequence&&) = default;

  int length() const { return cache_->length() - n_ahead(); }                                             // computed positions
  int capacity() const { return capacity_; }                                                              // 0: unknown
  std::span<const TokenId> tokens() const { return tokens_.all().first(static_cast<size_t>(length())); }  // computed ones
  std::span<const TokenId> all_tokens() const { return tokens_.all(); }
  std::span<const TokenId> pending() const { return tokens_.from(n_running()); }
  size_t n_tokens() const { return tokens_.size(); }
  size_t n_pending() const { return tokens_.size() - n_running(); }
  size_t cache_bytes() const { return cache_->size_bytes(); }
  backend::Backend& backend() const;
  Decoder& decoder() const { return *decoder_; }

  // Computes and appends tokens. Nothing runs if they do not fit into the context; after a failure or a cancellation the sequence is
  // unchanged.
  AppendStatus append(std::span<const TokenId> tokens, const Watch& watch = {});

  // The same, and passes the logits after each token to see(i, row).
  using See = std::function<void(int i, std::span<const float> row)>;
  AppendStatus append_and_see(std::span<const TokenId> tokens, const See& see, const Watch& watch = {});

  // Appends one token to each sequence, in one run: to all of them or to none.
  static AppendStatus append_each(std::span<Sequence* const> sequences, std::span<const TokenId> tokens);

  // Logits of the last position, valid until the sequence changes. After a rewind the last token is recomputed, once.
  std::span<const float> logits();
  // The largest of known_logits(), if they can be read without reading all. May be empty.
  std::span<const TokenLogit> known_candidates() const { return logits_ ? logits_.candidates() : std::span<const TokenLogit>(); }
  std::span<const float> known_logits() const { return logits_ ? logits_.values() : std::span<const float>(); }
  const LogitsRow& logits_row() const { return logits_; }  // of known_logits()

  Sequence fork() const;
  void rewind(int length);
  void truncate(int length);  // like rewind(), but does not offer the dropped positions to other sequences

  // The contents of the cache, for restored(). First recomputes positions that a rewind has invalidated.
  std::vector<Tensor> contents();
  // Recomputes positions that a rewind has invalidated, so that the cache can be forked and continued.
  AppendStatus make_continuable();  // kDone or kNoMemory
  // A new sequence from the tokens, contents and logits of another. Throws Error(kBadArgument) if they do not fit the model.
  static Sequence restored(const std::shared_ptr<Decoder>& decoder, int context, std::span<const TokenId> tokens,
                           std::span<const Tensor> contents, std::span<const float> logits);

  // ---- for the decode loop and its strategies
  bool has_room_for(size_t n_tokens) const { return capacity_ == 0 || tokens_.size() + n_tokens <= static_cast<size_t>(capacity_); }
  void push(TokenId token) { tokens_.push(token); }
  void drop_pending() {
    drop_ahead();
    tokens_.shorten(static_cast<size_t>(length()));
    next_cache_ = nullptr;
  }
  // From now on, reuse positions that other sequences of the backend have computed, and offer this sequence's positions to them.
  void reuse_prefixes() { reuses_prefixes_ = true; }
  int use_known_prefix();         // of the pending tokens except the last; returns the number of positions found
  void share_prefix(bool whole);  // see Backend::share_prefix
  // Appends tokens that were computed in `cache`, a fork of this sequence's cache, and swaps the two caches.
  void adopt(std::unique_ptr<backend::Cache>& cache, std::span<const TokenId> tokens, LogitsRow logits);
  void reserve(size_t n_tokens);  // room for this many tokens without another allocation
  void restart();                 // everything becomes pending
  void release();                 // the same, and frees the cache at once
  void need_logits();             // the last token becomes pending if its logits are not known
  void keep_until_computed();     // compute all pending tokens or none, in a second cache
  // Undoes a partial computation: back to an earlier length and its logits.
  void undo(int length, LogitsRow logits);
  bool must_restart() const;  // the cache cannot be continued with the pending tokens

  // ---- speculation: tokens that a run has computed before they were chosen. The functions above do not show them.
  int n_ahead() const { return static_cast<int>(ahead_.tokens.size() - ahead_.first); }
  size_t room_ahead() const;  // how many tokens the next run may compute after the pending one
  // Whether the pending token is the first one ahead; accept_ahead() then takes its position and logits, and no run is needed.
  bool next_is_ahead() const { return n_ahead() > 0 && n_pending() > 0 && pending().front() == ahead_.tokens[ahead_.first]; }
  void accept_ahead();
  void drop_ahead();
  // If the pending token is the first of the second continuation, switches to that continuation and returns true.
  bool branch_ahead();
  void reserve_ahead(size_t n_tokens);  // so that later steps do not allocate

 private:
  friend class Decoder;
  friend class Tree;
  size_t n_running() const { return static_cast<size_t>(next_cache_ != nullptr ? next_cache_->length() : length()); }
  backend::Cache& running_cache() const { return next_cache_ != nullptr ? *next_cache_ : *cache_; }  // of the next run
  void commit(LogitsRow logits);  // after a run; `logits`: of the last token, if wanted
  // Called before commit() if the run also computed these tokens after the last one, with logits from `first_row` on.
  void commit_ahead(std::span<const TokenId> tokens, const LogitsBuffer::Ref& logits, int first_row);
  // If it also computed a second continuation after the first `branch` of these, in a fork of the cache.
  void commit_other(size_t branch, std::span<const TokenId> tokens, int first_row);
  backend::Cache& fork_for_other();
  void drop_other();
  AppendStatus compute_pending();  // kDone or kNoMemory

  std::shared_ptr<Decoder> decoder_;
  std::shared_ptr<const backend::Source> source_;
  std::unique_ptr<backend::Cache> cache_;
  std::unique_ptr<backend::Cache> next_cache_;  // replaces cache_ when nothing is pending; usually null
  bool reuses_prefixes_ = false;
  int capacity_ = 0;
  TokenList tokens_;  // shared by forks
  LogitsRow logits_;  // of the last computed position; shared by forks; empty if not known
  struct Ahead {
    std::vector<TokenId> tokens;
    size_t first = 0;  // tokens before this index were accepted
    LogitsBuffer::Ref logits;
    int first_row = 0;  // of tokens[0]
    // The second continuation, instead of the tokens from `branch` on:
    std::vector<TokenId> other;
    size_t branch = 0;
    std::unique_ptr<backend::Cache> other_cache;  // empty if unused
    int other_row = 0;
  };
  Ahead ahead_;  // the last positions of cache_
};

}  // namespace kvik::engine

#pragma once

#include <cstdint>
#include <memory>

#include "backend/backend.h"
#include "engine/propose.h"

namespace kvik::engine {

// Proposes what followed the last tokens before: in the sequence itself, after the longest match of its end, or in another sequence of the
// backend that began with the same tokens. A step costs the same at any length, and allocates nothing up to `max_length`.
class LookupProposer final : public Proposer {
 public:
  // `backend`: whose other sequences are looked at; null: none.
  LookupProposer(std::shared_ptr<backend::Backend> backend, size_t max_length);

  std::optional<Evidence> match(std::span<const TokenId> tokens) override;
  void propose(std::span<const TokenId> tokens, size_t n, std::vector<TokenId>& proposed) override;
  // After the longest match that was continued in another way.
  std::optional<size_t> propose_other(std::span<const TokenId> tokens, size_t n, std::span<const TokenId> proposed,
                                      std::vector<TokenId>& other) override;

 private:
  bool match_other_session(std::span<const TokenId> tokens);
  void index(std::span<const TokenId> tokens);
  size_t bucket_of(std::span<const TokenId> tokens, size_t end) const;

  // Hash chains, as in LZ77: every pair of adjacent tokens, by the position behind it, newest first.
  std::vector<int32_t> newest_;   // by hash
  std::vector<int32_t> earlier_;  // by position: the one before it with the same hash
  struct Match {
    size_t end = 0;
    size_t n_tokens = 0;
  };
  std::vector<Match> matches_;  // of the end of the sequence, newest first
  size_t source_ = 0;           // where the longest one ends

  std::shared_ptr<backend::Backend> backend_;
  std::vector<TokenId> found_;  // in another session
  size_t found_at_ = 0;         // number of tokens that found_ continues
  size_t n_followed_ = 0;       // of found_, that the sequence has taken
  size_t next_try_ = 0;         // number of tokens
  size_t wait_ = 0;             // tokens between two searches without success
};

}  // namespace kvik::engine

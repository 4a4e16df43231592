#pragma once

#include <cstdint>
#include <memory>

#include "backend/backend.h"
#include "engine/propose.h"

namespace kvik::engine {

// Proposes the tokens that followed the last tokens earlier: in the sequence itself, after the longest match of its end, or in another
// sequence of the backend that began with the same tokens. The cost of a step does not depend on the length; nothing is allocated up to
// `max_length`.
class LookupProposer final : public Proposer {
 public:
  // `backend`: searched for other sequences; may be null.
  LookupProposer(std::shared_ptr<backend::Backend> backend, size_t max_length);

  std::optional<Evidence> match(std::span<const TokenId> tokens) override;
  void propose(std::span<const TokenId> tokens, size_t n, std::vector<TokenId>& proposed) override;
  // The continuation of the longest match that continued differently.
  std::optional<size_t> propose_other(std::span<const TokenId> tokens, size_t n, std::span<const TokenId> proposed,
                                      std::vector<TokenId>& other) override;

 private:
  bool match_other_session(std::span<const TokenId> tokens);
  void index(std::span<const TokenId> tokens);
  size_t bucket_of(std::span<const TokenId> tokens, size_t end) const;

  // Hash chains, as in LZ77: every pair of adjacent tokens, by the position after it, newest first.
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
  size_t n_followed_ = 0;       // tokens of found_ that the sequence has followed
  size_t next_try_ = 0;         // number of tokens
  size_t wait_ = 0;             // tokens to wait after a failed search
};

}  // namespace kvik::engine

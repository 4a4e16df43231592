#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/token.h"

namespace kvik::engine {

struct Watch;

// Why a proposal may be right. The acceptance rate of each kind decides how many tokens are proposed.
enum class Evidence {
  kShortMatch,    // the last few tokens occurred before
  kMatch,         // more of them
  kLongMatch,     // many of them
  kOtherSession,  // all tokens so far have occurred in another session
  kDraft,         // a smaller model
  kForced,        // a constraint allows no other text
  kOther,         // a second continuation, in case the first is wrong
};
inline constexpr size_t kEvidenceKinds = 7;

// Guesses the next tokens of a sequence, which only grows from one call to the next. Used by one thread at a time.
class Proposer {
 public:
  virtual ~Proposer() = default;

  // Called once, first: the sequence begins with these tokens. False if it was cancelled.
  virtual bool begin(std::span<const TokenId> /*tokens*/, const Watch& /*watch*/) { return true; }

  // Whether it can propose a continuation of these tokens; cheap.
  virtual std::optional<Evidence> match(std::span<const TokenId> tokens) = 0;

  // How many of these tokens it must compute before it can propose any.
  virtual size_t n_behind(std::span<const TokenId> /*tokens*/) const { return 0; }

  // Called after match() with the same tokens: appends at most n tokens that may follow.
  virtual void propose(std::span<const TokenId> tokens, size_t n, std::vector<TokenId>& proposed) = 0;

  // Called after propose(): a second continuation. Appends at most n tokens that may follow instead of proposed[i…], and returns i.
  virtual std::optional<size_t> propose_other(std::span<const TokenId> /*tokens*/, size_t /*n*/, std::span<const TokenId> /*proposed*/,
                                              std::vector<TokenId>& /*other*/) {
    return std::nullopt;
  }
};

}  // namespace kvik::engine

#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/token.h"

namespace kvik::engine {

struct Watch;

// Why a proposal may be right. What was accepted of each kind decides how much of it is proposed.
enum class Evidence {
  kShortMatch,    // the last few tokens occurred before
  kMatch,         // more of them
  kLongMatch,     // many of them
  kOtherSession,  // all tokens so far have occurred in another session
  kDraft,         // a smaller model
  kForced,        // a constraint allows no other text
  kOther,         // a second idea, if the first turns out to be wrong
};
inline constexpr size_t kEvidenceKinds = 7;

// Guesses the tokens that follow a sequence, which only grows from one call to the next. Used by one thread at a time.
class Proposer {
 public:
  virtual ~Proposer() = default;

  // Once, before all else: the sequence begins with these tokens. False if it was cancelled.
  virtual bool begin(std::span<const TokenId> /*tokens*/, const Watch& /*watch*/) { return true; }

  // Whether it has an idea what follows these tokens; cheap.
  virtual std::optional<Evidence> match(std::span<const TokenId> tokens) = 0;

  // Tokens of these that it has not computed yet and would before it proposes any.
  virtual size_t n_behind(std::span<const TokenId> /*tokens*/) const { return 0; }

  // After a match for the same tokens: appends at most n tokens that may follow.
  virtual void propose(std::span<const TokenId> tokens, size_t n, std::vector<TokenId>& proposed) = 0;

  // After that: a second idea. Appends at most n tokens that may follow instead of those from proposed[i] on, and returns i.
  virtual std::optional<size_t> propose_other(std::span<const TokenId> /*tokens*/, size_t /*n*/, std::span<const TokenId> /*proposed*/,
                                              std::vector<TokenId>& /*other*/) {
    return std::nullopt;
  }
};

}  // namespace kvik::engine

#pragma once

#include <functional>

#include "constrain/matcher.h"
#include "engine/propose.h"

namespace kvik::engine {

// Proposes text for which a constraint leaves no choice (keys of an object and the punctuation around them), in the tokens that the
// tokenizer would use for it. The strategy still chooses the tokens, so a model that prefers other tokens for the same text gets those.
class ForcedTextProposer final : public Proposer {
 public:
  using Encode = std::function<std::vector<TokenId>(std::string_view text)>;  // without special tokens

  ForcedTextProposer(std::shared_ptr<constrain::TokenConstraint> constraint, Encode encode);

  bool begin(std::span<const TokenId> tokens, const Watch& watch) override;
  std::optional<Evidence> match(std::span<const TokenId> tokens) override;
  void propose(std::span<const TokenId> tokens, size_t n, std::vector<TokenId>& proposed) override;

 private:
  bool follow(std::span<const TokenId> tokens);
  void find_forced(TokenId last);
  bool take(std::span<const TokenId> ids, std::string_view text);

  std::shared_ptr<constrain::TokenConstraint> constraint_;
  constrain::Matcher matcher_;
  Encode encode_;
  size_t n_seen_ = 0;            // tokens that the matcher has consumed, or that precede the constrained text
  std::vector<TokenId> forced_;  // forced tokens after those
  bool off_ = false;             // the sequence violates the constraint
};

}  // namespace kvik::engine

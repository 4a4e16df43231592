#pragma once

#include <functional>

#include "constrain/matcher.h"
#include "engine/propose.h"

namespace kvik::engine {

// Proposes the text that a constraint leaves no choice about (keys of an object, quotes and brackets after them), in the tokens that the
// tokenizer would use for it. The tokens are chosen as always, so a model that prefers other ones for the same text gets those.
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
  size_t n_seen_ = 0;            // tokens that the matcher has read, or that came before the constrained text
  std::vector<TokenId> forced_;  // behind them
  bool off_ = false;             // the sequence has left the constraint
};

}  // namespace kvik::engine

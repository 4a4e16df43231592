#pragma once

#include "engine/decoder.h"
#include "engine/propose.h"

namespace kvik::engine {

// Proposes the most likely continuation according to another, usually smaller, model with the same vocabulary.
class DraftProposer final : public Proposer {
 public:
  // Tokens from `vocab` on are not proposed. `reuse_prefixes`: as for sessions. The draft model must support rewinding.
  DraftProposer(const std::shared_ptr<Decoder>& decoder, int context, int vocab, bool reuse_prefixes);
  ~DraftProposer() override;

  bool begin(std::span<const TokenId> tokens, const Watch& watch) override;
  std::optional<Evidence> match(std::span<const TokenId> tokens) override;
  size_t n_behind(std::span<const TokenId> tokens) const override { return tokens.size() - n_held(tokens); }
  void propose(std::span<const TokenId> tokens, size_t n, std::vector<TokenId>& proposed) override;

 private:
  size_t n_held(std::span<const TokenId> tokens) const;  // leading tokens that are already computed
  AppendStatus follow(std::span<const TokenId> tokens, const Watch& watch = {});
  AppendStatus compute(const Watch& watch = {});

  Stream stream_;
  size_t vocab_;
  size_t n_checked_ = 0;  // tokens that the model is known to support
  bool off_ = false;      // the draft model cannot continue (full context, unsupported token)
};

}  // namespace kvik::engine

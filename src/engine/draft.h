#pragma once

#include "engine/decoder.h"
#include "engine/propose.h"

namespace kvik::engine {

// Proposes the likeliest continuation according to another model, which is usually smaller and has the same tokens.
class DraftProposer final : public Proposer {
 public:
  // `vocab`: tokens from it on are not proposed. `reuse_prefixes`: as for sessions of the draft model, which must be able to rewind.
  DraftProposer(const std::shared_ptr<Decoder>& decoder, int context, int vocab, bool reuse_prefixes);
  ~DraftProposer() override;

  bool begin(std::span<const TokenId> tokens, const Watch& watch) override;
  std::optional<Evidence> match(std::span<const TokenId> tokens) override;
  size_t n_behind(std::span<const TokenId> tokens) const override { return tokens.size() - n_held(tokens); }
  void propose(std::span<const TokenId> tokens, size_t n, std::vector<TokenId>& proposed) override;

 private:
  size_t n_held(std::span<const TokenId> tokens) const;  // leading tokens that need not be computed
  AppendStatus follow(std::span<const TokenId> tokens, const Watch& watch = {});
  AppendStatus compute(const Watch& watch = {});

  Stream stream_;
  size_t vocab_;
  size_t n_checked_ = 0;  // tokens that the model is known to support
  bool off_ = false;      // it cannot follow the sequence any more
};

}  // namespace kvik::engine

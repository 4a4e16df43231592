#pragma once

#include "engine/decoder.h"
#include "engine/propose.h"

namespace kvik::engine {

// Proposes the likeliest continuation according to another model, which is usually smaller and has the same vocabulary.
class DraftProposer final : public Proposer {
 public:
  // `reuse_prefixes`: as for sessions of that model. The model must be able to rewind.
  DraftProposer(const std::shared_ptr<Decoder>& decoder, int context, bool reuse_prefixes);
  ~DraftProposer() override;

  void begin(std::span<const TokenId> tokens) override;
  std::optional<Evidence> match(std::span<const TokenId> tokens) override;
  void propose(std::span<const TokenId> tokens, size_t n, std::vector<TokenId>& proposed) override;

 private:
  bool follow(std::span<const TokenId> tokens);
  bool compute();

  Stream stream_;
  size_t n_checked_ = 0;  // tokens that the model is known to support
  bool off_ = false;      // it cannot follow the sequence any more
};

}  // namespace kvik::engine

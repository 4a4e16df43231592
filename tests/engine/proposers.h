#pragma once

#include <functional>
#include <memory>

#include "engine/decoder.h"

// Proposers whose guesses a test decides.
namespace kvik::testing_support {

// Proposes the tokens of a known continuation; guess(i) may replace the one at position i.
class ScriptedProposer final : public engine::Proposer {
 public:
  using Guess = std::function<TokenId(size_t position, TokenId right)>;
  ScriptedProposer(std::vector<TokenId> whole, Guess guess) : whole_(std::move(whole)), guess_(std::move(guess)) {}

  std::optional<engine::Evidence> match(std::span<const TokenId> tokens) override {
    return tokens.size() < whole_.size() ? std::optional(engine::Evidence::kMatch) : std::nullopt;
  }
  void propose(std::span<const TokenId> tokens, size_t n, std::vector<TokenId>& proposed) override {
    for (size_t i = tokens.size(); i < std::min(tokens.size() + n, whole_.size()); ++i) proposed.push_back(guess_(i, whole_[i]));
  }

 private:
  std::vector<TokenId> whole_;
  Guess guess_;
};

// Proposes a known continuation with wrong tokens after the first `branch`, and as a second idea the right ones.
class BranchingProposer final : public engine::Proposer {
 public:
  BranchingProposer(std::vector<TokenId> whole, size_t branch) : whole_(std::move(whole)), branch_(branch) {}

  std::optional<engine::Evidence> match(std::span<const TokenId> tokens) override {
    return tokens.size() + branch_ + 1 < whole_.size() ? std::optional(engine::Evidence::kMatch) : std::nullopt;
  }
  void propose(std::span<const TokenId> tokens, size_t n, std::vector<TokenId>& proposed) override {
    for (size_t i = 0; i < std::min(n, whole_.size() - tokens.size()); ++i)
      proposed.push_back(i < branch_ ? whole_[tokens.size() + i] : (whole_[tokens.size() + i] + 1) % 24);
  }
  std::optional<size_t> propose_other(std::span<const TokenId> tokens, size_t n, std::span<const TokenId> proposed,
                                      std::vector<TokenId>& other) override {
    if (proposed.size() <= branch_) return std::nullopt;
    for (size_t i = tokens.size() + branch_; i < std::min(tokens.size() + branch_ + n, whole_.size()); ++i) other.push_back(whole_[i]);
    return branch_;
  }

 private:
  std::vector<TokenId> whole_;
  size_t branch_;
};

inline std::unique_ptr<engine::Speculation> speculation_of(std::unique_ptr<engine::Proposer> proposer,
                                                           const engine::SpeculationOptions& options) {
  std::vector<std::unique_ptr<engine::Proposer>> proposers;
  proposers.push_back(std::move(proposer));
  return std::make_unique<engine::Speculation>(std::move(proposers), options);
}

}  // namespace kvik::testing_support

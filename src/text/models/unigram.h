#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/models/model.h"
#include "text/models/trie.h"

namespace kvik::text {

// Pieces with log-probabilities: the segmentation with the largest sum.
class Unigram final : public Model {
 public:
  using Pieces = std::vector<std::pair<std::string_view, double>>;  // the index is the id
  Unigram(const Pieces& pieces, std::optional<int64_t> unknown, bool byte_fallback);

  void encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const override;
  size_t size() const override { return scores_.size(); }

 private:
  void find_best(std::string_view word, std::vector<BestPath>& paths) const;
  void add_unknown(std::string_view text, std::vector<TokenId>& out) const;
  [[noreturn]] static void refuse_unknown();

  Trie trie_;
  std::vector<double> scores_;
  std::array<TokenId, 256> byte_ids_;
  double unknown_score_ = 0;
  TokenId unknown_ = kNoToken;
  bool byte_fallback_;
};

}  // namespace kvik::text

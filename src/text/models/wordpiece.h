#pragma once

#include <string>

#include "text/models/model.h"
#include "text/models/trie.h"

namespace kvik::text {

struct WordPieceOptions {
  std::string unknown = "[UNK]";
  std::string continuing_prefix = "##";
  size_t max_characters = 100;  // per word; longer words are unknown
};

// Greedy longest match first; a word that cannot be split that way is unknown as a whole.
class WordPiece final : public Model {
 public:
  WordPiece(Vocabulary vocabulary, WordPieceOptions options);
  void encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const override;

 private:
  bool cut(std::string_view word, std::vector<TokenId>& out) const;

  WordPieceOptions options_;
  Trie trie_;
  Trie::Node continuing_;  // the node of the continuing prefix
  TokenId unknown_;
};

// A word is a piece or unknown.
class WordLevel final : public Model {
 public:
  WordLevel(Vocabulary vocabulary, std::string unknown);
  void encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const override;

 private:
  std::string unknown_name_;
  TokenId unknown_;
};

}  // namespace kvik::text

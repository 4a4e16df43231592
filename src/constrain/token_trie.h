#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"

namespace kvik::constrain {

// A trie of the bytes of tokens, in one array: a node is followed by its children.
class TokenTrie {
 public:
  struct Node {
    uint32_t end;          // the index after its last descendant
    uint32_t first_token;  // in tokens(); the tokens of a node end where those of the next one begin
    uint16_t depth;        // 1: the first byte of a token
    uint8_t byte;
  };

  TokenTrie() : nodes_(1, Node{1, 0, 0, 0}) {}
  // `ids` are tokens with at least one byte; `bytes` of all tokens, by id.
  TokenTrie(std::vector<TokenId> ids, std::span<const std::string> bytes);

  size_t size() const { return nodes_.size() - 1; }  // without the sentinel at the end
  const Node* nodes() const { return nodes_.data(); }
  const TokenId* tokens() const { return tokens_.data(); }
  size_t depth() const { return depth_; }

 private:
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;
  size_t depth_ = 0;
};

inline constexpr size_t kLongestToken = 4096;  // bytes; a longer one is never allowed

// The number of characters of a text if all of them are complete and plain: from U+0020 on, except ", \ and DEL. Otherwise 0.
size_t n_plain_characters(std::string_view bytes);

// The tokens of a model, by the text they add. Immutable, shared by all constraints.
class TokenTexts {
 public:
  static constexpr size_t kMostCharacters = 32;  // of a plain token

  // `bytes[id]`: empty if the token adds nothing.
  TokenTexts(std::vector<std::string> bytes, size_t vocab_size);

  size_t vocab_size() const { return vocab_size_; }
  size_t n_words() const { return (vocab_size_ + 63) / 64; }
  std::string_view bytes(TokenId id) const { return bytes_[static_cast<size_t>(id)]; }

  // If a state allows any text, plain tokens are allowed by their number of characters; all others are found by walking the trie.
  const TokenTrie& plain() const { return plain_; }
  const TokenTrie& others() const { return others_; }
  // Plain tokens of at most n characters, one bit each. 1 <= n <= kMostCharacters.
  std::span<const uint64_t> plain_up_to(size_t n) const { return plain_up_to_[n - 1]; }

 private:
  std::vector<std::string> bytes_;
  size_t vocab_size_;
  TokenTrie plain_, others_;
  std::vector<std::vector<uint64_t>> plain_up_to_;
};

}  // namespace kvik::constrain

#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace kvik::text {

// A map from byte strings to values, searched byte by byte. Immutable; any thread may search.
class Trie {
 public:
  using Node = uint32_t;
  static constexpr Node kRoot = 0;
  static constexpr Node kDead = 0xFFFFFFFFu;
  static constexpr int32_t kNoValue = -1;

  Trie() : nodes_(1) {}
  // Of equal strings, the last wins. Values must not be negative.
  static Trie build(std::vector<std::pair<std::string_view, int32_t>> strings);

  Node step(Node node, uint8_t byte) const {
    if (node == kRoot) return root_[byte];
    const Entry& entry = nodes_[node];
    const uint8_t* const labels = labels_.data() + entry.first;
    if (entry.n_children <= 6) {
      for (uint32_t i = 0; i < entry.n_children; ++i) {
        if (labels[i] == byte) return entry.first + i;
      }
      return kDead;
    }
    return search(entry, byte);
  }
  int32_t value(Node node) const { return nodes_[node].value; }
  // The node reached from `node` by `text`.
  Node walk(Node node, std::string_view text) const {
    for (size_t i = 0; i < text.size() && node != kDead; ++i) node = step(node, static_cast<uint8_t>(text[i]));
    return node;
  }
  bool begins_with(uint8_t byte) const { return root_[byte] != kDead; }
  bool empty() const { return nodes_.size() == 1; }

 private:
  struct Entry {
    uint32_t first = 0;  // children are consecutive, in the order of their labels
    uint32_t n_children = 0;
    int32_t value = kNoValue;
  };
  Node search(const Entry& entry, uint8_t byte) const;

  std::vector<Entry> nodes_;
  std::vector<uint8_t> labels_;  // per node: the byte that leads to it
  std::vector<Node> root_ = std::vector<Node>(256, kDead);
};

}  // namespace kvik::text

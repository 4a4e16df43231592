#include "text/models/trie.h"

#include <algorithm>

namespace kvik::text {
namespace {

struct Key {
  uint64_t head;  // the first eight bytes, so that most comparisons do not read the string
  uint32_t index;
};

uint64_t head_of(std::string_view text) {
  uint64_t head = 0;
  for (size_t i = 0; i < 8; ++i) head = head << 8 | (i < text.size() ? static_cast<uint8_t>(text[i]) : 0u);
  return head;
}

// Strings [begin, end) of the sorted list share their first `depth` bytes, which lead to `node`.
struct Range {
  uint32_t begin, end, depth;
};

}  // namespace

Trie Trie::build(std::vector<std::pair<std::string_view, int32_t>> strings) {
  std::vector<Key> keys(strings.size());
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = {head_of(strings[i].first), static_cast<uint32_t>(i)};
  std::sort(keys.begin(), keys.end(), [&](const Key& a, const Key& b) {
    if (a.head != b.head) return a.head < b.head;
    const int order = strings[a.index].first.compare(strings[b.index].first);
    return order != 0 ? order < 0 : a.index < b.index;
  });

  Trie trie;
  trie.labels_.assign(1, 0);
  std::vector<Range> ranges = {{0, static_cast<uint32_t>(keys.size()), 0}};  // one per node, in the order of the nodes
  for (uint32_t node = 0; node < ranges.size(); ++node) {
    auto [at, end, depth] = ranges[node];
    const auto text = [&](uint32_t i) { return strings[keys[i].index].first; };
    for (; at < end && text(at).size() == depth; ++at) {
      if (depth > 0) trie.nodes_[node].value = strings[keys[at].index].second;
    }
    trie.nodes_[node].first = static_cast<uint32_t>(ranges.size());
    while (at < end) {
      const char label = text(at)[depth];
      uint32_t stop = at + 1;
      while (stop < end && text(stop)[depth] == label) ++stop;
      ranges.push_back({at, stop, depth + 1});
      trie.labels_.push_back(static_cast<uint8_t>(label));
      at = stop;
    }
    trie.nodes_[node].n_children = static_cast<uint32_t>(ranges.size()) - trie.nodes_[node].first;
    trie.nodes_.resize(ranges.size());
  }
  for (uint32_t i = 0; i < trie.nodes_[kRoot].n_children; ++i) {
    const Node child = trie.nodes_[kRoot].first + i;
    trie.root_[trie.labels_[child]] = child;
  }
  return trie;
}

Trie::Node Trie::search(const Entry& entry, uint8_t byte) const {
  const auto begin = labels_.begin() + entry.first;
  const auto end = begin + entry.n_children;
  const auto found = std::lower_bound(begin, end, byte);
  return found == end || *found != byte ? kDead : static_cast<Node>(found - labels_.begin());
}

}  // namespace kvik::text

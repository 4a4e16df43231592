#include "engine/tree.h"

#include <algorithm>
#include <fmt/format.h>

#include "engine/decoder.h"
#include "kvik/error.h"

namespace kvik::engine {

void check_node(int node, int n_nodes) {
  if (node < 0 || node >= n_nodes)
    throw Error(Code::kBadArgument, fmt::format("node {} does not exist; the tree has {} nodes", node, n_nodes));
}

void Tree::check(const Sequence& sequence, std::span<const TokenId> tokens, std::span<const int> parents) const {
  const backend::Traits& traits = sequence.backend().traits();
  if (!traits.can_branch || !traits.exact) {
    throw Error(Code::kUnsupported, fmt::format("the {} backend cannot run several continuations of one context together for this model; "
                                                "fork the session for each instead",
                                                traits.name));
  }
  if (tokens.size() != parents.size())
    throw Error(Code::kBadArgument,
                fmt::format("a tree has {} tokens and {} parents; one parent per token was expected", tokens.size(), parents.size()));
  for (size_t i = 0; i < parents.size(); ++i) {
    if (parents[i] < -1 || parents[i] >= static_cast<int>(i))
      throw Error(Code::kBadArgument, fmt::format("the parent of node {} is {}; an earlier node or -1 was expected", i, parents[i]));
    if (tokens[i] < 0 || tokens[i] >= traits.vocab)
      throw Error(Code::kBadArgument, fmt::format("token id {} is outside the vocabulary of {}", tokens[i], traits.vocab));
  }
}

void Tree::split(const Sequence& sequence) {
  for (int node = 0; node < size(); ++node) {
    const int parent = parents_[static_cast<size_t>(node)];
    if (parent >= 0 && chains_[static_cast<size_t>(chain_of_[static_cast<size_t>(parent)])].nodes.back() == parent) {
      chain_of_.push_back(chain_of_[static_cast<size_t>(parent)]);
    } else {
      chain_of_.push_back(static_cast<int>(chains_.size()));
      chains_.push_back({sequence.backend().fork(*sequence.cache_), {}, parent});
    }
    chains_[static_cast<size_t>(chain_of_.back())].nodes.push_back(node);
  }
  row_of_.resize(tokens_.size());
  for (size_t c = 0; c < chains_.size(); ++c) {
    const Chain& chain = chains_[c];
    int position = length_ + depths_[static_cast<size_t>(chain.nodes.front())] - 1;
    for (const int node : chain.nodes) {
      const int after = node == chain.nodes.front() && chain.after >= 0 ? row_of_[static_cast<size_t>(chain.after)] : -1;
      row_of_[static_cast<size_t>(node)] = static_cast<int>(rows_.size());
      rows_.push_back({tokens_[static_cast<size_t>(node)], position++, static_cast<int>(c), true, after});
    }
  }
}

AppendStatus Tree::compute(Sequence& sequence, std::span<const TokenId> tokens, std::span<const int> parents) {
  check(sequence, tokens, parents);
  clear();
  tokens_.assign(tokens.begin(), tokens.end());
  parents_.assign(parents.begin(), parents.end());
  length_ = sequence.length();
  int deepest = 0;
  for (const int parent : parents) {
    depths_.push_back(parent >= 0 ? depths_[static_cast<size_t>(parent)] + 1 : 1);
    deepest = std::max(deepest, depths_.back());
  }
  if (sequence.capacity() > 0 && length_ + deepest > sequence.capacity()) {
    clear();
    return AppendStatus::kContextFull;
  }
  if (tokens_.empty()) return AppendStatus::kDone;
  const int64_t switch_after = sequence.backend().traits().switch_after;
  if (switch_after > 0 && length_ <= switch_after && length_ + deepest > switch_after) {
    clear();
    throw Error(Code::kUnsupported,
                fmt::format("the tree would cross {} positions, where this model computes all positions differently; fork "
                            "the session for each continuation instead",
                            switch_after));
  }
  if (sequence.make_continuable() != AppendStatus::kDone) {
    clear();
    return AppendStatus::kNoMemory;
  }
  split(sequence);
  std::vector<backend::Cache*> caches;
  for (const Chain& chain : chains_) caches.push_back(chain.cache.get());
  if (!logits_) logits_ = LogitsBuffer::make();
  if (sequence.decoder().run(rows_, caches, logits_.logits()) == backend::RunStatus::kDone) return AppendStatus::kDone;
  clear();
  return AppendStatus::kNoMemory;
}

std::span<const float> Tree::logits(int node) const {
  check_node(node, size());
  return logits_.logits().row(row_of_[static_cast<size_t>(node)]);
}

void Tree::keep(int node, Sequence& sequence) {
  check_node(node, size());
  Chain& chain = chains_[static_cast<size_t>(chain_of_[static_cast<size_t>(node)])];
  std::vector<TokenId> path;
  for (int at = node; at >= 0; at = parents_[static_cast<size_t>(at)]) path.push_back(tokens_[static_cast<size_t>(at)]);
  std::ranges::reverse(path);
  sequence.backend().rewind(*chain.cache, length_ + static_cast<int>(path.size()));
  sequence.adopt(std::move(chain.cache), path, LogitsRow(logits_, row_of_[static_cast<size_t>(node)]));
  logits_ = {};
  clear();
}

void Tree::clear() {
  tokens_.clear();
  parents_.clear();
  chains_.clear();
  depths_.clear();
  chain_of_.clear();
  row_of_.clear();
  rows_.clear();
}

}  // namespace kvik::engine

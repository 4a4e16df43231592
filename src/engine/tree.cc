#include "engine/tree.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

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

void Tree::split() {
  for (int node = 0; node < size(); ++node) {
    const int parent = parents_[static_cast<size_t>(node)];
    const int chain = parent >= 0 ? chain_of_[static_cast<size_t>(parent)] : -1;
    next_in_chain_.push_back(-1);
    if (chain >= 0 && chains_[static_cast<size_t>(chain)].last == parent) {
      chain_of_.push_back(chain);
      next_in_chain_[static_cast<size_t>(parent)] = chains_[static_cast<size_t>(chain)].last = node;
    } else {
      chain_of_.push_back(static_cast<int>(chains_.size()));
      chains_.push_back({node, node, parent});
    }
  }
  row_of_.resize(tokens_.size());
  for (size_t c = 0; c < chains_.size(); ++c) {
    const Chain& chain = chains_[c];
    int position = length_ + depths_[static_cast<size_t>(chain.first)] - 1;
    int after = chain.after >= 0 ? row_of_[static_cast<size_t>(chain.after)] : -1;
    for (int node = chain.first; node >= 0; node = next_in_chain_[static_cast<size_t>(node)]) {
      row_of_[static_cast<size_t>(node)] = static_cast<int>(rows_.size());
      rows_.push_back({tokens_[static_cast<size_t>(node)], position++, static_cast<int>(c), true, std::exchange(after, -1), true});
    }
  }
}

void Tree::fork_caches(const Sequence& sequence) {
  if (backend_ != &sequence.backend()) caches_.clear();
  backend_ = &sequence.backend();
  if (caches_.size() < chains_.size()) caches_.resize(chains_.size());
  for (size_t c = 0; c < chains_.size(); ++c) {
    backend_->fork_into(*sequence.cache_, caches_[c]);
    run_caches_.push_back(caches_[c].get());
  }
}

// One that no sequence reads. A sequence that kept a node of the last tree reads that tree's buffer, so that two take turns.
void Tree::take_logits_buffer() {
  if (logits_ && !logits_.is_only_reader()) std::swap(logits_, other_logits_);
  if (!logits_ || !logits_.is_only_reader()) logits_ = LogitsBuffer::make();
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
  split();
  fork_caches(sequence);
  take_logits_buffer();
  if (sequence.decoder().run(rows_, run_caches_, logits_.logits()) == backend::RunStatus::kDone) return AppendStatus::kDone;
  clear();
  return AppendStatus::kNoMemory;
}

std::span<const float> Tree::logits(int node) const {
  check_node(node, size());
  return logits_.logits().row(row_of_[static_cast<size_t>(node)]);
}

LogitsRow Tree::logits_row(int node) const {
  check_node(node, size());
  return {logits_, row_of_[static_cast<size_t>(node)]};
}

void Tree::keep(int node, Sequence& sequence) {
  check_node(node, size());
  const auto chain = static_cast<size_t>(chain_of_[static_cast<size_t>(node)]);
  std::unique_ptr<backend::Cache>& cache = caches_[chain];
  path_.clear();
  for (int at = node; at >= 0; at = parents_[static_cast<size_t>(at)]) path_.push_back(tokens_[static_cast<size_t>(at)]);
  std::ranges::reverse(path_);
  sequence.backend().rewind(*cache, length_ + static_cast<int>(path_.size()));
  sequence.adopt(cache, path_, LogitsRow(logits_, row_of_[static_cast<size_t>(node)]));
  run_caches_[chain] = cache.get();  // the sequence's own until now
  clear();
}

void Tree::clear() {
  tokens_.clear();
  parents_.clear();
  chains_.clear();
  depths_.clear();
  chain_of_.clear();
  next_in_chain_.clear();
  row_of_.clear();
  rows_.clear();
  for (backend::Cache* cache : run_caches_) backend_->rewind(*cache, 0);  // releases its pages
  run_caches_.clear();
  if (caches_.size() > kMostSpare) caches_.resize(kMostSpare);
}

}  // namespace kvik::engine

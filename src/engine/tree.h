#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/sequence.h"

namespace kvik::engine {

// Throws Error(kBadArgument) if a tree of `n_nodes` does not have this node.
void check_node(int node, int n_nodes);

// Many continuations of one sequence, computed in one run. Nodes are split into chains: the first child of a node extends its chain, every
// other child begins a new chain. A chain is a fork of the sequence's cache and contains the whole path to its last node, so that a node
// attends to exactly what it would attend to alone. Used by one thread at a time.
class Tree {
 public:
  // Node i is tokens[i] after node parents[i] < i, or after the sequence if that is -1. The sequence does not change. Throws
  // Error(kBadArgument) for arguments out of range and Error(kUnsupported) if the backend cannot branch or the tree crosses a length
  // switch.
  AppendStatus compute(Sequence& sequence, std::span<const TokenId> tokens, std::span<const int> parents);

  int size() const { return static_cast<int>(tokens_.size()); }
  std::span<const float> logits(int node) const;  // after its token
  LogitsRow logits_row(int node) const;           // the same; the result keeps the buffer alive
  std::span<const int> rows() const { return row_of_; }
  // Appends the path to a node to the sequence that the tree was computed for, which must not have changed. The tree is then empty.
  void keep(int node, Sequence& sequence);
  void clear();

 private:
  static constexpr size_t kMostSpare = 64;  // caches
  struct Chain {
    int first = 0, last = 0;  // nodes
    int after = -1;           // the node that it branches off from; -1: the sequence
  };
  void check(const Sequence& sequence, std::span<const TokenId> tokens, std::span<const int> parents) const;
  void split();
  void fork_caches(const Sequence& sequence);
  void take_logits_buffer();

  // All buffers are reused by the next tree.
  std::vector<TokenId> tokens_;
  std::vector<int> parents_;
  std::vector<Chain> chains_;
  std::vector<int> depths_, chain_of_, next_in_chain_, row_of_;  // of each node; the depth of a child of the sequence is 1
  std::vector<backend::Row> rows_;
  std::vector<std::unique_ptr<backend::Cache>> caches_;  // of chains, then spare ones, which are empty
  std::vector<backend::Cache*> run_caches_;
  std::vector<TokenId> path_;
  LogitsBuffer::Ref logits_, other_logits_;  // used in turn, because the sequence may still read one
  backend::Backend* backend_ = nullptr;      // of the caches
  int length_ = 0;                           // of the sequence
};

}  // namespace kvik::engine

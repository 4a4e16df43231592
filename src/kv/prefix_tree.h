#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "base/token_view.h"
#include "kv/page_table.h"

namespace kvik::kv {

// Pages that were computed, found by the tokens up to their end. Every page is a node below the page before it; only the last page of a
// path may hold fewer tokens than it has room for. Pages that no sequence uses are evicted when room is needed, the least recently used
// leaf first. Any thread.
class PrefixTree {
 public:
  // `most_pages`: what the tree keeps beside the pages that sequences use; the store's budget may allow less.
  PrefixTree(PageStore& store, size_t most_pages);
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;
  ~PrefixTree();

  // Fills an empty table with the longest known beginning of the tokens: whole pages, then a part of one, which is copied when the
  // sequence continues in it.
  void find(const TokenView& tokens, PageTable& table);

  // Adds the pages of a sequence with these tokens, from page `first` on (pages before it were added earlier). Where the tree has a page
  // for the same tokens the sequence shares that one and frees its own. `partial`: also the last page if it is not full.
  void add(const TokenView& tokens, PageTable& table, size_t first, bool partial);

  // Pages of this path are not evicted. Returns how many of the tokens are in the tree.
  int64_t pin(std::span<const TokenId> tokens);

  // Evicts until the store can give n_pages more. False if what is left is in use; then nothing needs to be undone.
  bool make_room(size_t n_pages);
  // Forgets the last page of a sequence if that continues in it, so that it need not be copied.
  void forget_last(const PageTable& table);
  void clear();  // all that is neither pinned nor in use

  // A continuation of these tokens that is in the tree, at most `n` tokens: the most recently used one, over the ends of pages.
  void continuation(std::span<const TokenId> tokens, size_t n, std::vector<TokenId>& found);

  size_t idle_bytes() const;  // of pages that only the tree holds
  int64_t n_evicted() const;  // positions

 private:
  struct Match {
    Page* page = nullptr;
    int32_t n_tokens = 0;  // that agree
  };
  Match best_child(const Page* parent, std::span<const TokenId> tokens) const;
  // The nodes of the longest known beginning, in order, and how many tokens they hold; the last may match in part.
  Match walk(const TokenView& tokens, std::vector<Page*>& path);
  Page* add_node(Page* parent, std::span<const TokenId> tokens, Page* page);
  void remove(Page* node);
  bool evict_one();
  void touch(Page* node);
  void link_newest(Page* node);
  void unlink(Page* node);
  static void link_child(Page* node);
  static void unlink_child(Page* node);
  size_t bucket_of(const Page* parent, TokenId first) const;
  void grow_buckets();

  PageStore& store_;
  const size_t most_pages_;
  mutable std::mutex mutex_;
  Page root_;
  std::vector<Page*> buckets_;  // by parent and first token
  std::vector<Page*> path_;     // scratch
  std::vector<TokenId> copy_;   // scratch, of a page of tokens
  Page* newest_ = nullptr;      // of the nodes that are not pinned; a node is newer than its children
  Page* oldest_ = nullptr;
  size_t n_nodes_ = 0;
  int64_t n_evicted_ = 0;
};

}  // namespace kvik::kv

#include "kv/prefix_tree.h"

#include <algorithm>
#include <bit>

namespace kvik::kv {
namespace {

std::span<const TokenId> tokens_of(const Page& node) { return {node.tokens, static_cast<size_t>(node.n_tokens)}; }

bool is_idle(const Page& node) { return node.n_references.load(std::memory_order_acquire) == 1; }

}  // namespace

PrefixTree::PrefixTree(PageStore& store, size_t most_pages) : store_(store), most_pages_(most_pages) {}

PrefixTree::~PrefixTree() {
  for (Page* node : buckets_) {
    while (node != nullptr) {
      Page* const next = node->next_in_bucket;
      node->n_tokens = node->n_children = node->n_pins = 0;
      node->newest_child = nullptr;
      store_.release(node);
      node = next;
    }
  }
}

void PrefixTree::find(const TokenView& tokens, PageTable& table) {
  const std::lock_guard lock(mutex_);
  const Match last = walk(tokens, path_);
  int64_t length = 0;
  for (Page* node : path_) {
    length += node == last.page ? last.n_tokens : node->n_tokens;
    table.add_shared(node, length);
  }
  if (last.page != nullptr) touch(last.page);
}

void PrefixTree::add(const TokenView& tokens, PageTable& table, size_t first, bool partial) {
  const std::lock_guard lock(mutex_);
  const auto positions = static_cast<size_t>(store_.shape().positions());
  const size_t n_pages = tokens.size() / positions + (partial && tokens.size() % positions != 0 ? 1 : 0);
  if (first >= n_pages) return;
  // The page before is usually in the tree, as a page of this very table: no walk from the root.
  Page* parent = &root_;
  size_t i = 0;
  if (first > 0 && table.page(first - 1) != nullptr && table.page(first - 1)->n_tokens == static_cast<int32_t>(positions)) {
    parent = table.page(first - 1);
    i = first;
  }
  for (; i < n_pages; ++i) {
    const std::span<const TokenId> wanted = tokens.slice(i * positions, positions, copy_);
    const Match match = best_child(parent, wanted);
    const bool known = match.page != nullptr && match.n_tokens == static_cast<int32_t>(wanted.size());
    if (known) {
      if (table.page(i) != nullptr && table.page(i) != match.page && wanted.size() == positions) table.replace(i, match.page);
      parent = match.page;
      continue;
    }
    Page* const page = table.page(i);
    if (page == nullptr || page->n_tokens > 0) break;  // dropped by a window, or in the tree for other tokens
    // A leaf that holds less of the same tokens has served.
    if (match.page != nullptr && match.n_tokens == match.page->n_tokens && match.page->n_pins == 0) remove(match.page);
    parent = add_node(parent, wanted, page);
  }
  if (parent != &root_) touch(parent);
  while (n_nodes_ > most_pages_ && evict_one()) {}
}

int64_t PrefixTree::pin(std::span<const TokenId> tokens) {
  const std::lock_guard lock(mutex_);
  walk(tokens, path_);
  int64_t n_tokens = 0;
  for (Page* node : path_) {
    n_tokens += node->n_tokens;
    if (node->n_pins++ == 0) unlink(node);
  }
  return std::min(n_tokens, static_cast<int64_t>(tokens.size()));
}

bool PrefixTree::make_room(size_t n_pages) {
  if (store_.can_take(n_pages)) return true;
  const std::lock_guard lock(mutex_);
  while (!store_.can_take(n_pages)) {
    if (!evict_one()) return false;
  }
  return true;
}

void PrefixTree::forget_last(const PageTable& table) {
  const std::lock_guard lock(mutex_);
  const auto positions = static_cast<int64_t>(store_.shape().positions());
  if (table.length() % positions == 0) return;
  Page* const page = table.page(static_cast<size_t>(table.length() / positions));
  if (page->n_tokens > 0 && page->n_children == 0 && page->n_pins == 0) remove(page);
}

void PrefixTree::clear() {
  const std::lock_guard lock(mutex_);
  while (evict_one()) {}
}

void PrefixTree::continuation(std::span<const TokenId> tokens, size_t n, std::vector<TokenId>& found) {
  const std::lock_guard lock(mutex_);
  found.clear();
  const Match last = walk(tokens, path_);
  size_t n_held = 0;
  for (const Page* node : path_) n_held += static_cast<size_t>(node == last.page ? last.n_tokens : node->n_tokens);
  if (last.page == nullptr || n_held < tokens.size()) return;
  auto n_taken = static_cast<size_t>(last.n_tokens);
  for (const Page* node = last.page; node != nullptr && found.size() < n; node = node->newest_child, n_taken = 0) {
    const std::span<const TokenId> rest = tokens_of(*node).subspan(n_taken);
    found.insert(found.end(), rest.begin(), rest.begin() + static_cast<ptrdiff_t>(std::min(n - found.size(), rest.size())));
  }
}

size_t PrefixTree::idle_bytes() const {
  const std::lock_guard lock(mutex_);
  size_t n_idle = 0;
  for (const Page* bucket : buckets_) {
    for (const Page* node = bucket; node != nullptr; node = node->next_in_bucket) n_idle += is_idle(*node) ? 1 : 0;
  }
  return n_idle * store_.shape().bytes();
}

int64_t PrefixTree::n_evicted() const {
  const std::lock_guard lock(mutex_);
  return n_evicted_;
}

PrefixTree::Match PrefixTree::best_child(const Page* parent, std::span<const TokenId> tokens) const {
  Match best;
  if (buckets_.empty() || tokens.empty()) return best;
  for (Page* node = buckets_[bucket_of(parent, tokens.front())]; node != nullptr; node = node->next_in_bucket) {
    if (node->parent != parent) continue;
    const std::span<const TokenId> held = tokens_of(*node);
    const auto n_same = static_cast<int32_t>(std::ranges::mismatch(held, tokens).in1 - held.begin());
    if (n_same > best.n_tokens) best = {node, n_same};
  }
  return best;
}

PrefixTree::Match PrefixTree::walk(const TokenView& tokens, std::vector<Page*>& path) {
  path.clear();
  Match last;
  const Page* parent = &root_;
  const auto positions = static_cast<size_t>(store_.shape().positions());
  for (size_t done = 0; done < tokens.size();) {
    const Match match = best_child(parent, tokens.slice(done, positions, copy_));
    if (match.page == nullptr) break;
    path.push_back(match.page);
    last = match;
    if (static_cast<size_t>(match.n_tokens) < positions) break;
    parent = match.page;
    done += static_cast<size_t>(match.n_tokens);
  }
  return last;
}

Page* PrefixTree::add_node(Page* parent, std::span<const TokenId> tokens, Page* page) {
  if (buckets_.size() < n_nodes_ + 1) grow_buckets();
  PageStore::share(page);
  std::ranges::copy(tokens, page->tokens);
  page->n_tokens = static_cast<int32_t>(tokens.size());
  page->n_children = page->n_pins = 0;
  page->parent = parent;
  page->newest_child = nullptr;
  link_child(page);
  ++parent->n_children;
  Page*& bucket = buckets_[bucket_of(parent, tokens.front())];
  page->next_in_bucket = bucket;
  bucket = page;
  link_newest(page);
  ++n_nodes_;
  return page;
}

void PrefixTree::remove(Page* node) {
  Page** link = &buckets_[bucket_of(node->parent, node->tokens[0])];
  while (*link != node) link = &(*link)->next_in_bucket;
  *link = node->next_in_bucket;
  --node->parent->n_children;
  unlink_child(node);
  unlink(node);
  node->n_tokens = 0;
  node->parent = nullptr;
  --n_nodes_;
  store_.release(node);
}

// The oldest leaf that no sequence uses. What is in use moves to the front: it is not a candidate soon.
bool PrefixTree::evict_one() {
  for (size_t n = 0; n < n_nodes_ && oldest_ != nullptr; ++n) {
    Page* const node = oldest_;
    if (node->n_children == 0 && is_idle(*node)) {
      n_evicted_ += node->n_tokens;
      remove(node);
      return true;
    }
    unlink(node);
    link_newest(node);
  }
  return false;
}

// From the leaf to the root, so that a node is newer than its children.
void PrefixTree::touch(Page* node) {
  for (; node != &root_; node = node->parent) {
    unlink_child(node);
    link_child(node);
    if (node->n_pins > 0) continue;
    unlink(node);
    link_newest(node);
  }
}

void PrefixTree::link_child(Page* node) {
  Page*& newest = node->parent->newest_child;
  node->newer_sibling = nullptr;
  node->older_sibling = newest;
  if (newest != nullptr) newest->newer_sibling = node;
  newest = node;
}

void PrefixTree::unlink_child(Page* node) {
  (node->newer_sibling != nullptr ? node->newer_sibling->older_sibling : node->parent->newest_child) = node->older_sibling;
  if (node->older_sibling != nullptr) node->older_sibling->newer_sibling = node->newer_sibling;
}

void PrefixTree::link_newest(Page* node) {
  node->newer = nullptr;
  node->older = newest_;
  if (newest_ != nullptr) newest_->newer = node;
  newest_ = node;
  if (oldest_ == nullptr) oldest_ = node;
}

void PrefixTree::unlink(Page* node) {
  (node->newer != nullptr ? node->newer->older : newest_) = node->older;
  (node->older != nullptr ? node->older->newer : oldest_) = node->newer;
  node->newer = node->older = nullptr;
}

size_t PrefixTree::bucket_of(const Page* parent, TokenId first) const {
  uint64_t key = std::bit_cast<uintptr_t>(parent) ^ (static_cast<uint64_t>(static_cast<uint32_t>(first)) << 32);
  key *= 0x9e3779b97f4a7c15u;  // Fibonacci hashing: the high bits are well mixed
  return static_cast<size_t>((key ^ (key >> 32)) & (buckets_.size() - 1));
}

// As many buckets as the store has pages, so that they grow when the store does and not in between.
void PrefixTree::grow_buckets() {
  std::vector<Page*> old = std::move(buckets_);
  buckets_.assign(std::bit_ceil(std::max<size_t>({64, n_nodes_ + 1, store_.n_pages()})), nullptr);
  for (Page* node : old) {
    while (node != nullptr) {
      Page* const next = node->next_in_bucket;
      Page*& bucket = buckets_[bucket_of(node->parent, node->tokens[0])];
      node->next_in_bucket = bucket;
      bucket = node;
      node = next;
    }
  }
}

}  // namespace kvik::kv

#include "constrain/states.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "constrain/limits.h"
#include "kvik/error.h"

namespace kvik::constrain {
namespace {

constexpr size_t kBlockBytes = size_t{64} << 10;
constexpr size_t kFew = 16;  // configurations that are searched one by one

uint64_t mix(uint64_t x) {
  x ^= x >> 31;
  x *= 0x9E3779B97F4A7C15;
  return x ^ (x >> 29);
}
uint64_t key_of(Configuration c) { return uint64_t{c.state} << 32 | c.stack; }

// Characters of two to four bytes.
constexpr ByteRange kTail = {0x80, 0xBF};
constexpr std::array<ByteSequence, 8> kLongCharacters = {{{2, {{0xC2, 0xDF}, kTail}},
                                                          {3, {{0xE0, 0xE0}, {0xA0, 0xBF}, kTail}},
                                                          {3, {{0xE1, 0xEC}, kTail, kTail}},
                                                          {3, {{0xED, 0xED}, {0x80, 0x9F}, kTail}},
                                                          {3, {{0xEE, 0xEF}, kTail, kTail}},
                                                          {4, {{0xF0, 0xF0}, {0x90, 0xBF}, kTail, kTail}},
                                                          {4, {{0xF1, 0xF3}, kTail, kTail, kTail}},
                                                          {4, {{0xF4, 0xF4}, {0x80, 0x8F}, kTail, kTail}}}};
// Of one byte, without " and \.
constexpr ByteRange kShortCharacters[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x7E}};

}  // namespace

void Work::spend(size_t n) {
  if (n > left_)
    throw Error(Code::kTooLarge, "the constraint is too ambiguous: finding the tokens that it allows took too many steps; simplify it");
  left_ -= n;
}

TextStates::TextStates(std::shared_ptr<const Automaton> automaton) : automaton_(std::move(automaton)), stacks_(1, {kNoState, 0}) {
  dead_.next_ = static_cast<std::atomic<TextState*>*>(allocate(automaton_->n_classes() * sizeof(std::atomic<TextState*>)));
  for (size_t i = 0; i < automaton_->n_classes(); ++i) new (dead_.next_ + i) std::atomic<TextState*>(&dead_);
  dead_.plain_ = &dead_;
  Work work(kMostWorkPerMask);
  add({automaton_->start, 0});
  start_ = close(work);
}

void* TextStates::allocate(size_t n_bytes) {
  n_bytes = (n_bytes + 15) / 16 * 16;
  if (n_bytes > block_left_) {
    block_left_ = std::max(n_bytes, kBlockBytes);
    blocks_.push_back(std::make_unique<std::byte[]>(block_left_));
    block_ = blocks_.back().get();
    n_bytes_ += block_left_;
  }
  block_left_ -= n_bytes;
  return std::exchange(block_, block_ + n_bytes);
}

uint32_t TextStates::push(uint32_t back, uint32_t below) {
  const auto [place, is_new] = stack_ids_.try_emplace(uint64_t{back} << 32 | below, static_cast<uint32_t>(stacks_.size()));
  if (is_new) {
    stacks_.push_back({back, below});
    n_bytes_ += sizeof(StackNode) + 48;  // with its entry in the map
  }
  return place->second;
}

// Adds to found_ what is not there yet.
void TextStates::add(Configuration configuration) {
  if (found_.size() < kFew) {
    if (std::ranges::find(found_, configuration) == found_.end()) found_.push_back(configuration);
    return;
  }
  const auto insert = [&](size_t i) {
    const size_t mask = buckets_.size() - 1;
    size_t at = mix(key_of(found_[i])) & mask;
    while (buckets_[at] != 0) {
      if (found_[buckets_[at] - 1] == found_[i]) return false;
      at = (at + 1) & mask;
    }
    buckets_[at] = static_cast<uint32_t>(i + 1);
    return true;
  };
  found_.push_back(configuration);
  if (found_.size() == kFew + 1 || found_.size() * 2 > buckets_.size()) {
    size_t n = 64;
    while (n < found_.size() * 4) n *= 2;
    buckets_.assign(n, 0);
    for (size_t i = 0; i + 1 < found_.size(); ++i) insert(i);
  }
  if (!insert(found_.size() - 1)) found_.pop_back();
}

// Follows calls and returns from what is in found_, until what is left reads something.
TextState* TextStates::close(Work& work) {
  bool complete = false;
  for (size_t i = 0; i < found_.size(); ++i) {
    const Configuration c = found_[i];
    for (uint32_t call = automaton_->first_call[c.state]; call < automaton_->first_call[c.state + 1]; ++call) {
      const Automaton::Call& called = automaton_->calls[call];
      add({called.start, called.back == kNoState ? c.stack : push(called.back, c.stack)});
    }
    if (automaton_->accepting[c.state]) {
      if (c.stack == 0) {
        complete = true;
      } else {
        const StackNode node = stacks_[c.stack];
        add({node.back, node.below});
      }
    }
    if (found_.size() > kMostConfigurations * 4)
      throw Error(Code::kTooLarge,
                  fmt::format("the constraint is too ambiguous: there are more than {} ways to read the text so far; simplify it",
                              kMostConfigurations));
  }
  work.spend(found_.size() + 1);
  std::erase_if(found_, [&](Configuration c) { return automaton_->first_edge[c.state] == automaton_->first_edge[c.state + 1]; });
  std::ranges::sort(found_, {}, key_of);
  return intern(complete);
}

TextState* TextStates::intern(bool complete) {
  if (found_.empty() && !complete) return &dead_;
  uint64_t hash = complete ? 1 : 2;
  for (const Configuration c : found_) hash = mix(hash ^ key_of(c)) + hash;
  const auto [first, last] = interned_.equal_range(hash);
  for (auto place = first; place != last; ++place) {
    const TextState& state = *place->second;
    if (state.complete_ == complete && std::ranges::equal(state.configurations_, found_)) return place->second;
  }
  if (bytes() > 4 * kMostStateBytes)
    throw Error(Code::kTooLarge, "the constraint is too ambiguous: the texts that may follow need too much memory; simplify it");
  const size_t n_classes = automaton_->n_classes();
  auto* const state = new (allocate(sizeof(TextState))) TextState;
  auto* const configurations = static_cast<Configuration*>(allocate(found_.size() * sizeof(Configuration)));
  std::ranges::copy(found_, configurations);
  state->configurations_ = {configurations, found_.size()};
  state->complete_ = complete;
  state->next_ = static_cast<std::atomic<TextState*>*>(allocate(n_classes * sizeof(std::atomic<TextState*>)));
  for (size_t i = 0; i < n_classes; ++i) new (state->next_ + i) std::atomic<TextState*>(nullptr);
  interned_.emplace(hash, state);
  n_bytes_ += 48;  // its entry in the map
  return state;
}

TextState* TextStates::find_next(TextState& state, uint8_t byte_class, Work& work) {
  const std::lock_guard lock(mutex_);
  if (TextState* const known = state.next_[byte_class].load(std::memory_order_relaxed)) return known;
  const uint8_t byte = automaton_->class_bytes[byte_class];
  found_.clear();
  for (const Configuration c : state.configurations_) {
    for (uint32_t i = automaton_->first_edge[c.state]; i < automaton_->first_edge[c.state + 1]; ++i) {
      const Automaton::Edge& edge = automaton_->edges[i];
      if (edge.first > byte) break;
      if (edge.last >= byte) add({edge.to, c.stack});
    }
  }
  work.spend(state.configurations_.size());
  TextState* const next = close(work);
  state.next_[byte_class].store(next, std::memory_order_release);
  return next;
}

TextState* TextStates::next_plain(TextState* state, Work& work) {
  if (TextState* const known = state->plain_.load(std::memory_order_acquire)) return known;
  TextState* const found = find_next_plain(state, work);
  state->plain_.store(found, std::memory_order_release);
  return found;
}

TextState* TextStates::find_next_plain(TextState* state, Work& work) {
  TextState* to = nullptr;
  for (const ByteRange& range : kShortCharacters) {
    if (!leads_to_one(state, {&range, 1}, work, to)) return &mixed_;
  }
  for (const ByteSequence& sequence : kLongCharacters) {
    if (!leads_to_one(state, {sequence.bytes, static_cast<size_t>(sequence.n)}, work, to)) return &mixed_;
  }
  return to;
}

bool TextStates::leads_to_one(TextState* state, std::span<const ByteRange> bytes, Work& work, TextState*& to) {
  if (bytes.empty() || state->is_dead()) {
    if (to == nullptr) to = state;
    return to == state;
  }
  int previous = -1;
  for (int byte = bytes[0].first; byte <= bytes[0].last; ++byte) {
    const int byte_class = automaton_->class_of[static_cast<size_t>(byte)];
    if (std::exchange(previous, byte_class) == byte_class) continue;
    if (!leads_to_one(next(state, static_cast<uint8_t>(byte), work), bytes.subspan(1), work, to)) return false;
  }
  return true;
}

std::optional<uint8_t> TextStates::only_byte(TextState* state, Work& work) {
  std::optional<uint8_t> only;
  for (int byte = 0; byte < 256; ++byte) {
    if (next(state, static_cast<uint8_t>(byte), work)->is_dead()) continue;
    if (only) return std::nullopt;
    only = static_cast<uint8_t>(byte);
  }
  return only;
}

TextState* TextStates::import(const TextStates& other, const TextState& state) {
  const std::scoped_lock lock(mutex_, const_cast<std::mutex&>(other.mutex_));
  found_.clear();
  std::vector<uint32_t> backs;
  for (const Configuration c : state.configurations_) {
    backs.clear();
    for (uint32_t stack = c.stack; stack != 0; stack = other.stacks_[stack].below) backs.push_back(other.stacks_[stack].back);
    uint32_t stack = 0;
    while (!backs.empty()) {
      stack = push(backs.back(), stack);
      backs.pop_back();
    }
    add({c.state, stack});
  }
  std::ranges::sort(found_, {}, key_of);
  return intern(state.complete_);
}

}  // namespace kvik::constrain

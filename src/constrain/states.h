#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "constrain/automaton.h"

namespace kvik::constrain {

// One way in which the text so far can be read: a state of the automaton, and where the calls that are open return to.
struct Configuration {
  uint32_t state;
  uint32_t stack;
  bool operator==(const Configuration&) const = default;
};

// All ways in which a text can be read: a state of the deterministic automaton, which is made as far as texts visit it.
class TextState {
 public:
  bool is_dead() const { return configurations_.empty() && !complete_; }  // no match begins like this
  bool complete() const { return complete_; }                             // the text so far is a match
  bool only_end() const { return configurations_.empty() && complete_; }  // and of no longer match the beginning

 private:
  friend class TextStates;
  std::span<const Configuration> configurations_;  // that can read something; sorted
  bool complete_ = false;
  std::atomic<TextState*> plain_{nullptr};
  std::atomic<TextState*>* next_ = nullptr;  // [n_classes]; null: not known yet
};

// Counts what a step costs, so that no input keeps a thread busy.
class Work {
 public:
  explicit Work(size_t most) : left_(most) {}
  void spend(size_t n);  // throws Error(kTooLarge) when nothing is left

 private:
  size_t left_;
};

// The states that texts have visited. Any thread; states live as long as the object.
class TextStates {
 public:
  explicit TextStates(std::shared_ptr<const Automaton> automaton);

  TextState* start() { return start_; }

  TextState* next(TextState* state, uint8_t byte, Work& work) {
    const uint8_t byte_class = automaton_->class_of[byte];
    TextState* const known = state->next_[byte_class].load(std::memory_order_acquire);
    return known != nullptr ? known : find_next(*state, byte_class, work);
  }

  // After any plain character (is_plain() of token_trie.h), if all of them lead to the same state; `mixed()` if not.
  TextState* next_plain(TextState* state, Work& work);
  const TextState* mixed() const { return &mixed_; }

  // The byte that follows in every match, if there is only one; of a state that is not dead.
  std::optional<uint8_t> only_byte(TextState* state, Work& work);

  // The same state of other states of the same automaton.
  TextState* import(const TextStates& other, const TextState& state);

  size_t bytes() const { return n_bytes_.load(std::memory_order_relaxed); }

 private:
  struct StackNode {
    uint32_t back, below;
  };
  TextState* find_next(TextState& state, uint8_t byte_class, Work& work);
  TextState* find_next_plain(TextState* state, Work& work);
  bool leads_to_one(TextState* state, std::span<const ByteRange> bytes, Work& work, TextState*& to);
  uint32_t push(uint32_t back, uint32_t below);
  void add(Configuration configuration);
  TextState* close(Work& work);
  TextState* intern(bool complete);
  void* allocate(size_t n_bytes);

  std::shared_ptr<const Automaton> automaton_;
  TextState mixed_, dead_;
  TextState* start_ = nullptr;
  std::atomic<size_t> n_bytes_{0};

  std::mutex mutex_;  // of what follows
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  size_t block_left_ = 0;
  std::byte* block_ = nullptr;
  std::vector<StackNode> stacks_;  // 0: the empty stack
  std::unordered_map<uint64_t, uint32_t> stack_ids_;
  std::unordered_multimap<uint64_t, TextState*> interned_;
  std::vector<Configuration> found_;  // while a state is made
  std::vector<uint32_t> buckets_;     // of found_, if there are many
};

}  // namespace kvik::constrain

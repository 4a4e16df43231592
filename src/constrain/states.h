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

// One parse of the text so far: a state of the automaton and the stack of return states of open calls.
struct Configuration {
  uint32_t state;
  uint32_t stack;
  bool operator==(const Configuration&) const = default;
};

// All parses of a text: a state of the deterministic automaton, which is built lazily.
class TextState {
 public:
  bool is_dead() const { return configurations_.empty() && !complete_; }  // no match begins with the text
  bool complete() const { return complete_; }                             // the text so far is a match
  bool only_end() const { return configurations_.empty() && complete_; }  // and nothing can follow

 private:
  friend class TextStates;
  std::span<const Configuration> configurations_;  // those that can read more; sorted
  bool complete_ = false;
  std::atomic<TextState*> plain_{nullptr};
  std::atomic<TextState*>* next_ = nullptr;  // [n_classes]; null: not known yet
};

// Bounds the cost of a step, so that no input can keep a thread busy.
class Work {
 public:
  explicit Work(size_t most) : left_(most) {}
  void spend(size_t n);  // throws Error(kTooLarge) if less is left

 private:
  size_t left_;
};

// The states that have been visited. Any thread; states are valid as long as the object.
class TextStates {
 public:
  explicit TextStates(std::shared_ptr<const Automaton> automaton);

  TextState* start() { return start_; }

  TextState* next(TextState* state, uint8_t byte, Work& work) {
    const uint8_t byte_class = automaton_->class_of[byte];
    TextState* const known = state->next_[byte_class].load(std::memory_order_acquire);
    return known != nullptr ? known : find_next(*state, byte_class, work);
  }

  // The state after any plain character (see n_plain_characters()), if it is the same for all of them; else mixed().
  TextState* next_plain(TextState* state, Work& work);
  const TextState* mixed() const { return &mixed_; }

  // The next byte of every match, if there is only one. `state` must not be dead.
  std::optional<uint8_t> only_byte(TextState* state, Work& work);

  // The equivalent of a state of another object with the same automaton.
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

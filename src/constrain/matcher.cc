#include "constrain/matcher.h"

#include <deque>

#include "constrain/states.h"

namespace kvik::constrain {
namespace {

// Finds the tokens whose bytes lead from a state to one that is not dead.
class MaskFinder {
 public:
  MaskFinder(TextStates& states, const TokenTexts& texts) : states_(states), texts_(texts), words_(texts.n_words(), 0) {}

  Mask find(TextState* from) {
    if (!add_plain(from)) walk(texts_.plain(), from);
    walk(texts_.others(), from);
    return Mask(words_);
  }

 private:
  // Adds plain tokens by their number of characters. False if the state does not allow any text, or any text up to a length.
  bool add_plain(TextState* from) {
    size_t n = 0;
    TextState* state = from;
    for (; n < TokenTexts::kMostCharacters; ++n) {
      TextState* const next = states_.next_plain(state, work_);
      if (next == states_.mixed()) return false;
      if (next->is_dead()) break;
      if (next == state) n = TokenTexts::kMostCharacters - 1;  // and so on
      state = next;
    }
    if (n == 0) return true;
    const std::span<const uint64_t> plain = texts_.plain_up_to(n);
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= plain[i];
    return true;
  }

  void walk(const TokenTrie& trie, TextState* from) {
    path_.resize(std::max(path_.size(), trie.depth() + 1));
    path_[0] = from;
    const TokenTrie::Node* const nodes = trie.nodes();
    const TokenId* const tokens = trie.tokens();
    const size_t n_nodes = trie.size();
    for (size_t i = 0; i < n_nodes;) {
      const TokenTrie::Node& node = nodes[i];
      TextState* const to = states_.next(path_[node.depth - 1u], node.byte, work_);
      if (to->is_dead()) {
        i = node.end;
        continue;
      }
      path_[node.depth] = to;
      ++i;
      for (uint32_t j = node.first_token; j < nodes[i].first_token; ++j) {
        const auto id = static_cast<uint32_t>(tokens[j]);
        words_[id / 64] |= uint64_t{1} << (id % 64);
      }
    }
  }

  TextStates& states_;
  const TokenTexts& texts_;
  Work work_{kMostWorkPerMask};
  std::vector<uint64_t> words_;
  std::vector<TextState*> path_;
};

}  // namespace

struct TextStatesInUse {
  struct MaskKey {
    const TextState* state;
    bool at_start;
    bool operator==(const MaskKey&) const = default;
  };
  struct MaskKeyHash {
    size_t operator()(const MaskKey& key) const { return std::hash<const void*>()(key.state) * 2 + (key.at_start ? 1 : 0); }
  };

  TextStatesInUse(std::shared_ptr<const Automaton> automaton, size_t most_mask_bytes)
      : states(std::move(automaton)), n_most_mask_bytes(most_mask_bytes) {}

  std::shared_ptr<const Mask> mask(TextState* state, bool at_start, const TokenTexts& texts) {
    const MaskKey key{state, at_start};
    {
      const std::lock_guard lock(mutex);
      if (const auto known = masks.find(key); known != masks.end()) return known->second;
    }
    auto found = std::make_shared<const Mask>(MaskFinder(states, texts).find(state));
    const std::lock_guard lock(mutex);
    const auto [place, is_new] = masks.try_emplace(key, found);
    if (!is_new) return place->second;
    n_mask_bytes += found->bytes();
    order.push_back(key);
    while (n_mask_bytes > n_most_mask_bytes && order.size() > 1) {
      const auto oldest = masks.find(order.front());
      order.pop_front();
      n_mask_bytes -= oldest->second->bytes();
      masks.erase(oldest);
    }
    return found;
  }

  TextStates states;
  const size_t n_most_mask_bytes;
  std::mutex mutex;  // of what follows
  std::unordered_map<MaskKey, std::shared_ptr<const Mask>, MaskKeyHash> masks;
  std::deque<MaskKey> order;  // oldest first
  size_t n_mask_bytes = 0;
};

TokenConstraint::TokenConstraint(std::shared_ptr<const Automaton> automaton, Vocabulary vocabulary, MemoryLimits limits)
    : automaton_(std::move(automaton)), vocabulary_(std::move(vocabulary)), limits_(limits) {}
TokenConstraint::~TokenConstraint() = default;

std::shared_ptr<TextStatesInUse> TokenConstraint::in_use() {
  const std::lock_guard lock(mutex_);
  if (in_use_ == nullptr || in_use_->states.bytes() > limits_.state_bytes)
    in_use_ = std::make_shared<TextStatesInUse>(automaton_, limits_.mask_bytes);
  return in_use_;
}

Matcher::Matcher(std::shared_ptr<TokenConstraint> constraint)
    : constraint_(std::move(constraint)), states_(constraint_->in_use()), state_(states_->states.start()) {}

void Matcher::use_current_states() {
  std::shared_ptr<TextStatesInUse> current = constraint_->in_use();
  if (current == states_) return;
  state_ = current->states.import(states_->states, *state_);
  states_ = std::move(current);
}

Allowed Matcher::allowed() {
  use_current_states();
  return {states_->mask(state_, at_start_ && constraint_->vocabulary_.first != constraint_->vocabulary_.later, texts()),
          state_->complete()};
}

bool Matcher::accept(TokenId token) {
  if (token < 0 || static_cast<size_t>(token) >= texts().vocab_size()) return false;
  const std::string_view bytes = texts().bytes(token);
  if (bytes.empty()) return false;
  Work work(kMostWorkPerMask);
  TextState* state = state_;
  for (const char byte : bytes) {
    state = states_->states.next(state, static_cast<uint8_t>(byte), work);
    if (state->is_dead()) return false;
  }
  state_ = state;
  at_start_ = false;
  return true;
}

std::string Matcher::forced_text(size_t most_bytes) {
  use_current_states();
  Work work(kMostWorkPerMask);
  std::string text;
  TextState* state = state_;
  while (text.size() < most_bytes && !state->complete()) {
    const std::optional<uint8_t> byte = states_->states.only_byte(state, work);
    if (!byte) break;
    text += static_cast<char>(*byte);
    state = states_->states.next(state, *byte, work);
  }
  return text;
}

bool Matcher::must_end() const { return state_->only_end(); }

}  // namespace kvik::constrain

#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/token.h"
#include "constrain/automaton.h"
#include "constrain/limits.h"
#include "constrain/mask.h"
#include "constrain/token_trie.h"

namespace kvik::constrain {

// The text that each token of a model adds. The first token of a text may add another text: some tokenizers drop its leading space.
struct Vocabulary {
  std::shared_ptr<const TokenTexts> first, later;  // the same object if they do not differ
};

// The tokens that may follow a text.
struct Allowed {
  std::shared_ptr<const Mask> tokens;  // with each of them the text begins a match; end tokens are treated as text here
  bool end = false;                    // the text is a match: it may end
};

struct TextStatesInUse;
class TextState;

// Limits for the memory of a constraint. Past them, all states are dropped, or the oldest masks.
struct MemoryLimits {
  size_t state_bytes = kMostStateBytes;
  size_t mask_bytes = kMostMaskBytes;
};

// A constraint for the tokens of one model, with cached masks. Shared by any number of matchers and threads.
class TokenConstraint {
 public:
  TokenConstraint(std::shared_ptr<const Automaton> automaton, Vocabulary vocabulary, MemoryLimits limits = {});
  ~TokenConstraint();

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  friend class Matcher;
  // The current states. They are replaced when their memory reaches a limit; matchers then switch to the new ones.
  std::shared_ptr<TextStatesInUse> in_use();

  std::shared_ptr<const Automaton> automaton_;
  Vocabulary vocabulary_;
  MemoryLimits limits_;
  std::mutex mutex_;
  std::shared_ptr<TextStatesInUse> in_use_;
};

// The state of one text in a constraint. Copy it to fork it. Used by one thread at a time.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<TokenConstraint> constraint);

  // Throws Error(kTooLarge) if the constraint is too ambiguous.
  Allowed allowed();
  // Appends a token. False, without a change, if no match begins with the result.
  bool accept(TokenId token);
  // The next bytes that all matches have in common, at most `most_bytes`.
  std::string forced_text(size_t most_bytes);
  bool must_end() const;  // the text matches, and nothing can follow

 private:
  void use_current_states();
  const TokenTexts& texts() const { return at_start_ ? *constraint_->vocabulary_.first : *constraint_->vocabulary_.later; }

  std::shared_ptr<TokenConstraint> constraint_;
  std::shared_ptr<TextStatesInUse> states_;
  TextState* state_;
  bool at_start_ = true;
};

}  // namespace kvik::constrain

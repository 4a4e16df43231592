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

// What the tokens of a model add to a text. The first token of a text may add something else: a tokenizer that writes spaces in front of
// words drops that one.
struct Vocabulary {
  std::shared_ptr<const TokenTexts> first, later;  // the same object if they do not differ
};

// What may follow a text.
struct Allowed {
  std::shared_ptr<const Mask> tokens;  // the text that they give begins a match; end tokens count as text here
  bool end = false;                    // the text is a match: it may end
};

struct TextStatesInUse;
class TextState;

// Most memory that a constraint keeps; past it, states start over and the oldest masks are dropped.
struct MemoryLimits {
  size_t state_bytes = kMostStateBytes;
  size_t mask_bytes = kMostMaskBytes;
};

// A constraint for the tokens of one model, with the masks that were computed. Shared by any number of matchers and threads.
class TokenConstraint {
 public:
  TokenConstraint(std::shared_ptr<const Automaton> automaton, Vocabulary vocabulary, MemoryLimits limits = {});
  ~TokenConstraint();

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  friend class Matcher;
  // Those that matchers use now. They start over when their memory reaches a limit; matchers move on to the new ones.
  std::shared_ptr<TextStatesInUse> in_use();

  std::shared_ptr<const Automaton> automaton_;
  Vocabulary vocabulary_;
  MemoryLimits limits_;
  std::mutex mutex_;
  std::shared_ptr<TextStatesInUse> in_use_;
};

// Where one text is in a constraint. A value: copy it to fork it. Used by one thread at a time.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<TokenConstraint> constraint);

  // Throws Error(kTooLarge) if the constraint is too ambiguous.
  Allowed allowed();
  // Appends a token. False, and the text stays as it is, if no match begins with the result.
  bool accept(TokenId token);
  // The bytes that every match continues with; at most so many.
  std::string forced_text(size_t most_bytes);
  bool can_end() const;
  bool must_end() const;  // it may end, and nothing may follow

 private:
  void use_current_states();
  const TokenTexts& texts() const { return at_start_ ? *constraint_->vocabulary_.first : *constraint_->vocabulary_.later; }

  std::shared_ptr<TokenConstraint> constraint_;
  std::shared_ptr<TextStatesInUse> states_;
  TextState* state_;
  bool at_start_ = true;
};

}  // namespace kvik::constrain

#pragma once

#include <vector>

#include "analysis/flow.h"
#include "analysis/operators.h"

namespace kvik::analysis {

// What attention does with a value.
struct AttentionUse {
  bool as_key = false;
  bool as_value = false;
  bool as_recurrent = false;       // the state of a recurrent operator
  bool both_in_one = false;        // an operator takes keys and values in this one tensor
  const FlowNode* node = nullptr;  // the operator, where attention is one
  bool any() const { return as_key || as_value || as_recurrent; }
};

// Where scores are and where they are applied, whatever attention is spelled with: a product that reaches a softmax is of
// queries and keys, a product with what comes out of a softmax is of weights and values.
class AttentionMap {
 public:
  explicit AttentionMap(const Flow& flow);

  // Adds to `use` what `node` does with its input number `slot`.
  void note(const FlowNode& node, size_t slot, AttentionUse& use) const;

  // Whether the softmax, or the attention in one operator, is over keys that do not depend on the tokens.
  template <class DependsOnTokens>
  bool is_cross(const FlowNode& node, const DependsOnTokens& depends_on_tokens) const {
    for (const FlowValue key : keys_of(node)) {
      if (!depends_on_tokens(key)) return true;
    }
    return false;
  }

  // What becomes of a value and of its copies: follows moves, concatenations and element-wise arithmetic (rotary positions
  // after the cache), up to a bound.
  AttentionUse use_of(FlowValue value) const;

 private:
  // What the scores of a softmax or of an attention operator are products of.
  std::vector<FlowValue> keys_of(const FlowNode& node) const;

  const Flow& flow_;
  std::vector<bool> from_softmax_;
  std::vector<bool> to_softmax_;
};

}  // namespace kvik::analysis

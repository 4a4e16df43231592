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
  bool both_in_one = false;        // one tensor holds keys and values
  const FlowNode* node = nullptr;  // the attention operator, if it is one node
  bool any() const { return as_key || as_value || as_recurrent; }
};

// Finds attention scores and where they are applied, for any spelling of attention: a product that reaches a softmax multiplies queries
// and keys, a product with the output of a softmax multiplies weights and values.
class AttentionMap {
 public:
  explicit AttentionMap(const Flow& flow);

  // Adds to `use` what `node` does with its input `slot`.
  void note(const FlowNode& node, size_t slot, AttentionUse& use) const;

  // Whether the softmax or attention operator reads keys that do not depend on the tokens.
  template <class DependsOnTokens>
  bool is_cross(const FlowNode& node, const DependsOnTokens& depends_on_tokens) const {
    for (const FlowValue key : keys_of(node)) {
      if (!depends_on_tokens(key)) return true;
    }
    return false;
  }

  // How attention uses a value or a copy of it: follows movement operators, concatenation and element-wise arithmetic (rotary
  // embeddings applied after the cache), up to a bound.
  AttentionUse use_of(FlowValue value) const;

 private:
  // The keys (and queries) whose products are the scores of a softmax or attention operator.
  std::vector<FlowValue> keys_of(const FlowNode& node) const;

  const Flow& flow_;
  std::vector<bool> from_softmax_;
  std::vector<bool> to_softmax_;
};

}  // namespace kvik::analysis

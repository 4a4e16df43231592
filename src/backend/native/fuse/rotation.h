#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "backend/native/plan/plan.h"

namespace kvik::native {

// An element of a position table.
struct TableElement {
  int32_t table = -1;  // -1: none
  int64_t element = 0;
  friend bool operator==(const TableElement&, const TableElement&) = default;
};

// Elements of a value as sums of one or two signed elements of another value, each times an element of a position table or times 1. This
// form does not depend on the nodes that move, negate, multiply and add elements, so it recognizes rotary embeddings of any exporter.
struct LinearForm {
  struct Term {
    float sign = 1.0f;
    int64_t element = 0;  // of the source
    TableElement factor;
  };
  struct Element {
    int n_terms = 0;
    Term terms[2];
  };
  ValueIndex source = kNoIndex;
  std::vector<Element> elements;
};

// Nullopt if a value is not such a sum, or has several sources.
class LinearForms {
 public:
  explicit LinearForms(const Plan& plan);
  std::optional<LinearForm> of(ValueIndex value);
  bool is_turned(ValueIndex value) const { return turned_[static_cast<size_t>(value)]; }  // depends on a product with a table

 private:
  using Memo = std::unordered_map<ValueIndex, std::optional<LinearForm>>;
  std::optional<LinearForm> build(ValueIndex value, int depth, Memo& memo) const;
  std::optional<LinearForm> expand(const Op& op, int depth, Memo& memo) const;
  std::optional<LinearForm> read(const Input& input, int depth, Memo& memo) const;
  std::optional<LinearForm> moved(const Op& op, int depth, Memo& memo) const;
  std::optional<LinearForm> multiplied(const Op& op, int depth, Memo& memo) const;
  std::optional<LinearForm> added(const Op& op, int depth, Memo& memo) const;
  bool can_expand(const Op& op) const;

  const Plan& plan_;
  std::vector<bool> turned_;
};

// Pairs (a, b) of each head become (a cos - b sin, b cos + a sin); other elements are unchanged.
struct Rotation {
  int64_t n_heads = 1, head_dim = 0, n_pairs = 0;
  bool interleaved = false;
  std::vector<int64_t> from;  // the element of the source at each place
  // For the first and the second of each pair; if they refer to different elements, those must be proved equal.
  std::vector<TableElement> cos[2], sin[2];  // [n_pairs]
  bool negative = false;                     // rotates in the other direction: negate sin
};

std::optional<Rotation> as_rotation(const LinearForm& form);

}  // namespace kvik::native

#pragma once

#include <mutex>

#include "backend/backend.h"
#include "backend/graph/executor.h"

namespace kvik::backend {

// One sequence's share of a batched value.
struct ValueRow {
  ValuePtr value;
  int row = 0;
};

class GraphSource final : public Source {
 public:
  GraphSource(ValuePtr hidden_states, int row, int n_positions, int n_read)
      : hidden_{std::move(hidden_states), row}, n_positions_(n_positions), n_read_(n_read) {}
  int n_positions() const override { return n_positions_; }
  int n_read() const { return n_read_; }                     // positions that the encoder read; it may give fewer
  const ValueRow& hidden_states() const { return hidden_; }  // the value is null where the encoder gives keys and values straight away

  // Keys and values of cross attention: computed once, by the first decoder step or by the encoder, and kept from then on.
  std::vector<ValueRow> cross() const {
    const std::lock_guard lock(mutex_);
    return cross_;
  }
  void set_cross(std::vector<ValueRow> cross) const {
    const std::lock_guard lock(mutex_);
    if (cross_.empty()) cross_ = std::move(cross);
  }

 private:
  ValueRow hidden_;
  int n_positions_, n_read_;
  mutable std::mutex mutex_;
  mutable std::vector<ValueRow> cross_;  // a late result, not a change: whoever computes it gets the same values
};
using SourcePtr = std::shared_ptr<const GraphSource>;

// The sources of a batch, padded to one length.
struct SourcePack {
  std::vector<SourcePtr> members;
  int n_positions = 0;
  ValuePtr hidden_states;       // [B, E, d]; null where the decoder never reads them
  std::vector<ValuePtr> cross;  // per cross slot; empty before the first step
};

// What the sequences of one run share afterwards: batched states that nobody changes.
struct Group {
  std::vector<ValuePtr> states;  // per slot
  std::shared_ptr<const SourcePack> sources;
  int n_sequences = 1;
  int length = 0;
};

// A row of a group, and how many of its positions count: forking copies this, rewinding lowers a number.
class GraphCache final : public Cache {
 public:
  int length() const override { return n_positions; }
  size_t size_bytes() const override;

  std::shared_ptr<const Group> group;  // null before the first run
  int row = 0;
  int n_positions = 0;
  SourcePtr source;
  // Only for graphs without any cache, which are run from the start every time, and for those that change their ways at a length.
  std::vector<TokenId> tokens;
  bool beyond = false;  // its states are of a sequence that was longer than that
};

}  // namespace kvik::backend

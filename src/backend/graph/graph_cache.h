#pragma once

#include <mutex>

#include "backend/backend.h"
#include "backend/graph/executor.h"

namespace kvik::backend {

// One sequence of a batched value.
struct ValueRow {
  ValuePtr value;
  int row = 0;
};

class GraphSource final : public Source {
 public:
  GraphSource(ValuePtr hidden_states, int row, int n_positions, int n_read)
      : hidden_{std::move(hidden_states), row}, n_positions_(n_positions), n_read_(n_read) {}
  int n_positions() const override { return n_positions_; }
  int n_read() const { return n_read_; }                     // positions of the encoder's input; its output may have fewer
  const ValueRow& hidden_states() const { return hidden_; }  // the value is null if the encoder outputs keys and values directly

  // Cross-attention keys and values: computed once, by the encoder or the first decoder step, then reused.
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
  mutable std::vector<ValueRow> cross_;  // lazily computed; every thread computes the same values
};
using SourcePtr = std::shared_ptr<const GraphSource>;

// The sources of a batch, padded to one length.
struct SourcePack {
  std::vector<SourcePtr> members;
  int n_positions = 0;
  ValuePtr hidden_states;       // [B, E, d]; null if the decoder never reads them
  std::vector<ValuePtr> cross;  // per cross slot; empty before the first step
};

// The batched states after one run, shared by its sequences. Immutable.
struct Group {
  std::vector<ValuePtr> states;  // per slot
  std::shared_ptr<const SourcePack> sources;
  int n_sequences = 1;
  int length = 0;
};

// A row of a group and the number of its valid positions. A fork copies this; a rewind lowers the number.
class GraphCache final : public Cache {
 public:
  int length() const override { return n_positions; }
  size_t size_bytes() const override;

  std::shared_ptr<const Group> group;  // null before the first run
  int row = 0;
  int n_positions = 0;
  SourcePtr source;
  std::vector<TokenId> tokens;  // only for graphs without a cache
};

}  // namespace kvik::backend

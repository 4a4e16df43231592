#include <algorithm>
#include <fmt/format.h>
#include <optional>

#include "backend/native/label/rules.h"
#include "onnx/eval/ops/common.h"

// GatherND and ScatterND by an index that is known beforehand, as assignments to slices and lists of indices are exported. The index names
// whole coordinates: along an axis of rows they must be each row's own position, along features the same for all rows.
namespace kvik::native {
namespace {

class Places {
 public:
  // `index` has the axes of input 1, `data` those of input 0; coordinates are along the first axes of data.
  Places(NodeLabeler& op, Axes index, const Axes& data) : op_(op), index_(std::move(index)), data_(data) {}

  // The index of one row by itself, after it was checked at all sizes.
  Expected<Tensor> of_row() {
    KVIK_CHECK(bind());
    KVIK_TRY(const std::vector<Tensor> tensors, op_.at_sizes(1));
    Tensor row(DType::kI64, row_dims(index_));
    std::vector<bool> known(static_cast<size_t>(row.size()));
    for (size_t s = 0; s < tensors.size(); ++s) KVIK_CHECK(read(tensors[s], op_.sizes()[s], row.mutable_data<int64_t>(), known));
    return row;
  }

  size_t n_coordinates() const { return n_; }  // after of_row()

 private:
  // How many coordinates there are, and which axis of the index walks along each axis of rows in data.
  Expected<> bind() {
    if (op_.any_score()) return op_.refuse("picks among scores");
    if (index_.empty() || has_symbol(index_.back())) return op_.refuse("its index has no coordinates");
    n_ = static_cast<size_t>(row_size(index_.back()));
    if (n_ > data_.size()) return op_.refuse(fmt::format("names {} coordinates of {} axes", n_, data_.size()));
    for (size_t c = 0; c < n_; ++c) {
      bound_.emplace_back();
      if (!has_symbol(data_[c])) continue;
      const auto end = index_.end() - 1;
      const auto same = std::find(index_.begin(), end, data_[c]);
      const bool only_rows = std::all_of(data_[c].begin(), data_[c].end(), [](const Factor& one) { return one.is_symbol(); });
      if (same == end || !only_rows) return op_.refuse("picks among rows: " + to_string(data_));
      bound_.back() = static_cast<size_t>(same - index_.begin());
    }
    for (size_t a = 0; a + 1 < index_.size(); ++a) {
      const auto walks = std::count(bound_.begin(), bound_.end(), std::optional(a));
      if (has_symbol(index_[a]) ? walks != 1 : walks != 0) return op_.refuse("several rows share a place: " + to_string(index_));
    }
    return {};
  }

  Expected<> read(const Tensor& tensor, const Sizes& sizes, std::span<int64_t> row, std::vector<bool>& known) {
    const Dims dims = sizes.of(index_), row_shape = row_dims(index_);
    if (tensor.dims() != dims) return op_.refuse("its index has other axes at other sizes");
    const std::vector<int64_t> numbers = onnx::as_ints(tensor);
    std::vector<int64_t> at(dims.size());
    for (const int64_t number : numbers) {
      size_t to = 0;
      for (size_t a = 0; a < dims.size(); ++a) {
        to = to * static_cast<size_t>(row_shape[a]) + static_cast<size_t>(row_shape[a] == dims[a] ? at[a] : 0);
      }
      const auto c = static_cast<size_t>(at.back());
      KVIK_TRY(const int64_t one, bound_[c] ? at_own_row(number, at[*bound_[c]], sizes.of(data_[c])) : feature(number, data_[c]));
      if (known[to] && row[to] != one) return op_.refuse("picks other features for other rows");
      row[to] = one, known[to] = true;
      for (size_t a = dims.size(); a-- > 0 && ++at[a] == dims[a];) at[a] = 0;
    }
    return {};
  }

  Expected<int64_t> at_own_row(int64_t number, int64_t own, int64_t size) const {
    if (number != own && number + size != own) return op_.refuse(fmt::format("picks row {} where row {} is expected", number, own));
    return int64_t{0};
  }

  Expected<int64_t> feature(int64_t number, const Axis& axis) const {
    const int64_t size = row_size(axis);
    if (number < -size || number >= size) return op_.refuse(fmt::format("picks element {} of {}", number, size));
    return number < 0 ? number + size : number;
  }

  NodeLabeler& op_;
  Axes index_;
  const Axes& data_;
  size_t n_ = 0;
  std::vector<std::optional<size_t>> bound_;  // by coordinate; nothing: features
};

Axes without_last(const Axes& axes) { return {axes.begin(), axes.end() - 1}; }

Axes joined(Axes front, const Axes& data, size_t from) {
  front.insert(front.end(), data.begin() + static_cast<std::ptrdiff_t>(from), data.end());
  return front;
}

}  // namespace

Expected<> gather_places(NodeLabeler& op) {
  if (op.node().int_or("batch_dims", 0) != 0) return op.refuse("picks in batches");
  KVIK_TRY(const Axes data, op.axes(0));
  KVIK_TRY(const Axes index, op.fitted(1, {}));
  Places places(op, index, data);
  KVIK_TRY(Tensor places_of_row, places.of_row());
  op.replace_operand(1, std::move(places_of_row));
  return op.emit_with(joined(without_last(index), data, places.n_coordinates()), op.dtype(0));
}

Expected<> scatter_places(NodeLabeler& op) {
  if (op.node().string_or("reduction", "none") != "none" && op.node().string_or("reduction", "none") != "add")
    return op.refuse("combines written values with existing ones");
  KVIK_TRY(const Axes index, op.fitted(1, {}));
  KVIK_TRY(const Axes data, op.fitted(0, op.is_row(2) ? op.label(2).axes : Axes()));
  Places places(op, index, data);
  KVIK_TRY(Tensor places_of_row, places.of_row());
  const Axes written = joined(without_last(index), data, places.n_coordinates());
  KVIK_TRY(const Axes updates, op.fitted(2, written));
  if (updates != written) return op.refuse(fmt::format("writes {} where {} is named", to_string(updates), to_string(written)));
  op.replace_operand(1, std::move(places_of_row));
  return op.emit_with(data, op.dtype(0));
}

}  // namespace kvik::native

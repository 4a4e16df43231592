#pragma once

#include <algorithm>

#include "backend/native/execute/cpu/cpu_values.h"

namespace kvik::native {

// The operations of a plan on the rows of one section of one call.
class Frame {
 public:
  Frame(CpuValues& values, std::span<const RunRow> rows, std::span<const RunSequence> sequences)
      : values_(values), plan_(*values.plan), kernels_(*values.kernels), pool_(*values.pool), rows_(rows), sequences_(sequences) {}

  void run(OpIndex index);

 private:
  // What an operation reads, row by row.
  struct Reader {
    const std::byte* base = nullptr;
    int64_t stride = 0;
    int table = -1;  // rows of a position table
    int64_t offset = 0;
  };
  Reader reader(const Input& input) const;
  const std::byte* bytes_at(const Reader& reader, int64_t row) const {
    if (reader.table < 0) return reader.base + row * reader.stride;
    const RunRow& at = rows_[static_cast<size_t>(row)];
    return values_.tables->row(reader.table, at) + reader.offset;
  }
  const float* at(const Reader& reader, int64_t row) const { return reinterpret_cast<const float*>(bytes_at(reader, row)); }
  std::byte* out_bytes(ValueIndex value, int64_t row) const {
    const CpuValues::View& view = values_.views[static_cast<size_t>(value)];
    return view.base + row * view.stride;
  }
  float* out(const Op& op, int64_t row, size_t i = 0) const { return reinterpret_cast<float*>(out_bytes(op.out[i], row)); }
  int64_t out_size(const Op& op) const { return plan_.value(op.out.front()).size; }
  int64_t n_rows() const { return static_cast<int64_t>(rows_.size()); }
  bool is_selected(const Op& op, int64_t row) const;

  // fn(row) for every row that the operation is for; on all threads where there is enough to do.
  template <class Fn>
  void each_row(const Op& op, int64_t work, Fn fn) const {
    constexpr int64_t kWorthSharing = 16 << 10;  // elements, some microseconds
    const auto guarded = [&](int64_t row) {
      if (op.selection == kNoIndex || is_selected(op, row)) fn(row);
    };
    if (n_rows() == 1 || work * n_rows() < kWorthSharing) {
      for (int64_t row = 0; row < n_rows(); ++row) guarded(row);
      return;
    }
    pool_.for_ranges(n_rows(), std::max<int64_t>(1, kWorthSharing / 2 / std::max<int64_t>(work, 1)), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) guarded(row);
    });
  }
  // fn(first, n) for runs of neighboring rows that the operation is for.
  template <class Fn>
  void each_run(const Op& op, Fn fn) const {
    if (op.selection == kNoIndex) return fn(0, n_rows());
    for (int64_t first = 0; first < n_rows();) {
      if (!is_selected(op, first)) {
        ++first;
        continue;
      }
      int64_t end = first + 1;
      while (end < n_rows() && is_selected(op, end)) ++end;
      fn(first, end - first);
      first = end;
    }
  }

  void run(const Op& op, const Embed& args);
  void run(const Op& op, const Matmul& args);
  void run(const Op& op, const UnaryOp& args);
  void run(const Op& op, const BinaryOp& args);
  void run(const Op& op, const GateOp& args);
  void run(const Op& op, const ClipOp& args);
  void run(const Op& op, const WhereOp& args);
  void run(const Op& op, const NormOp& args);
  void run(const Op& op, const SkipNormOp& args);
  void run(const Op& op, const SoftmaxOp& args);
  void run(const Op& op, const ReduceOp& args);
  void run(const Op& op, const RotaryOp& args);
  void run(const Op& op, const Move& args);
  void run(const Op& op, const AppendOp& args);
  void run(const Op& op, const AttendOp& args);
  void run(const Op& op, const ReadRegister& args);
  void run(const Op& op, const WriteRegister& args);
  void run(const Op& op, const ReferenceOp& args);

  struct ProductRows {
    const float* x;
    int64_t stride, n_rows;
  };
  void multiply(const LoadedWeight& weight, const ProductRows& x, const cpu::MatmulOut& out);
  template <class Quantize>
  void multiply_blocks(const LoadedWeight& weight, int64_t n_rows, const cpu::MatmulOut& out, Quantize quantize);
  void multiply_gated(const Op& gate, const LoadedWeight& weight, const cpu::MatmulOut& out);
  void norm_row(const NormOp& args, const float* x, float* y, int64_t n, const cpu::NormArgs& norm) const;
  Tensor reference_input(const Op& op, const ReferenceOp& args, size_t i, int64_t row) const;
  void keep_reference_output(const Op& op, size_t i, int64_t row, const Tensor& tensor) const;
  int64_t count_of(ValueIndex selection, int64_t row) const;
  bool skip_unchosen(const Op& op, const onnx::Node& node, int64_t row) const;
  bool has_none(const Input& input, int64_t row) const;
  bool leave_empty(const Op& op, int64_t row) const;

  CpuValues& values_;
  const Plan& plan_;
  const cpu::CpuKernels& kernels_;
  ThreadPool& pool_;
  std::span<const RunRow> rows_;
  std::span<const RunSequence> sequences_;
};

}  // namespace kvik::native

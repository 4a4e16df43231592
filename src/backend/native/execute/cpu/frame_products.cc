#include <algorithm>
#include <cstring>

#include "backend/native/execute/cpu/frame.h"
#include "kernels/cpu/parallel.h"

// Matrix products and attention: where the time goes.
namespace kvik::native {
namespace {

int64_t rows_a_time(int64_t k) { return std::max<int64_t>(1, (8 << 10) / k); }  // that a thread quantizes, some microseconds

}  // namespace

// quantize(rows, row) for every row, then the product.
template <class Quantize>
void Frame::multiply_blocks(const LoadedWeight& weight, int64_t n_rows, const cpu::MatmulOut& out, Quantize quantize) {
  const cpu::PackedWeights& w = weight.packed;
  const int64_t k = w.layout.k;
  const cpu::QuantizedRows q = cpu::quantized_rows(values_.scratch.data(), n_rows, k, cpu::row_part(w.layout));
  pool_.for_ranges(n_rows, rows_a_time(k), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) quantize(q, row);
  });
  cpu::matmul(pool_, kernels_, w, q, out);
}

// The gate's result would go through memory twice.
void Frame::multiply_gated(const Op& gate, const LoadedWeight& weight, const cpu::MatmulOut& out) {
  const Reader a = reader(gate.in[0]), b = reader(gate.in[1]);
  const Unary op = gate.as<GateOp>()->op;
  multiply_blocks(weight, n_rows(), out,
                  [&](const cpu::QuantizedRows& q, int64_t row) { kernels_.quantize_gated_row(op, at(a, row), at(b, row), q, row); });
}

void Frame::multiply(const LoadedWeight& weight, const ProductRows& x, const cpu::MatmulOut& out) {
  const cpu::PackedWeights& w = weight.packed;
  if (weight.activations == Activations::kFloats) return cpu::matmul(pool_, kernels_, w, cpu::FloatRows{x.x, x.stride, x.n_rows}, out);
  if (weight.activations == Activations::kBlocks) {
    return multiply_blocks(weight, x.n_rows, out,
                           [&](const cpu::QuantizedRows& q, int64_t row) { kernels_.quantize_row(x.x + row * x.stride, q, row); });
  }
  const int64_t k = w.layout.k;
  cpu::ByteRows q = cpu::byte_rows(values_.scratch.data(), x.n_rows, k);
  q.fixed_scale = weight.row_scale;
  q.fixed_zero_point = weight.row_zero_point;
  pool_.for_ranges(x.n_rows, rows_a_time(k), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) kernels_.quantize_bytes_row(x.x + row * x.stride, q, row);
  });
  cpu::matmul(pool_, kernels_, w, q, out);
}

void Frame::run(const Op& op, const Matmul& args) {
  const Reader x = reader(op.in[0]);
  const float* bias = op.in.size() > 1 && op.in[1] ? at(reader(op.in[1]), 0) : nullptr;
  const PlanWeight& shape = plan_.weights[static_cast<size_t>(args.weights.front())];
  const auto groups = static_cast<int64_t>(args.weights.size());
  const int64_t per_group = op.in[0].size / shape.k / (args.shared ? 1 : groups);
  const int64_t x_stride = x.stride / 4, y_stride = values_.views[static_cast<size_t>(op.out.front())].stride / 4;
  const OpIndex gate = values_.gate_of.empty() ? kNoIndex : values_.gate_of[static_cast<size_t>(&op - plan_.ops.data())];
  if (gate != kNoIndex) {
    const LoadedWeight& weight = values_.weights[static_cast<size_t>(args.weights.front())];
    return multiply_gated(plan_.ops[static_cast<size_t>(gate)], weight, {out(op, 0), y_stride, bias});
  }
  for (int64_t g = 0; g < groups; ++g) {
    const LoadedWeight& weight = values_.weights[static_cast<size_t>(args.weights[static_cast<size_t>(g)])];
    const int64_t x_at = args.shared ? 0 : g * per_group * shape.k, y_at = g * per_group * shape.n;
    each_run(op, [&](int64_t first, int64_t n) {
      const float* px = at(x, first) + x_at;
      float* py = out(op, first) + y_at;
      if (per_group == 1) return multiply(weight, {px, x_stride, n}, {py, y_stride, bias});
      for (int64_t row = 0; row < n; ++row)
        multiply(weight, {px + row * x_stride, shape.k, per_group}, {py + row * y_stride, shape.n, bias});
    });
  }
}

void Frame::run(const Op& op, const AppendOp& args) {
  const cpu::Attention& attention = values_.attentions[static_cast<size_t>(args.attend)];
  const bool from_source = plan_.attends[static_cast<size_t>(args.attend)].from_source;
  const Reader k = reader(op.in[0]), v = reader(op.in[1]);
  constexpr int64_t kKeyWork = 8;  // each element of a key is written to a line of its own
  each_row(op, kKeyWork * op.in[0].size + op.in[1].size, [&](int64_t row) {
    const RunRow& r = rows_[static_cast<size_t>(row)];
    const auto append_to = [&](int32_t s) {
      const RunSequence& sequence = sequences_[static_cast<size_t>(s)];
      std::byte* page = (from_source ? sequence.source_pages : sequence.pages)[r.position / cpu::kPagePositions] + attention.page_offset;
      kernels_.append(attention.layout, page, r.position % cpu::kPagePositions, at(k, row), at(v, row));
    };
    append_to(r.sequence);
    for (int32_t i = 0; i < r.n_branches; ++i) append_to(values_.branches[static_cast<size_t>(r.first_branch + i)]);
  });
}

void Frame::run(const Op& op, const AttendOp& args) {
  const cpu::Attention& attention = values_.attentions[static_cast<size_t>(args.attend)];
  const AttentionSpec& attend = plan_.attends[static_cast<size_t>(args.attend)];
  const Reader q = reader(op.in[0]);
  values_.attend_rows.resize(rows_.size());
  for (int64_t row = 0; row < n_rows(); ++row) {
    const RunRow& r = rows_[static_cast<size_t>(row)];
    const RunSequence& sequence = sequences_[static_cast<size_t>(r.sequence)];
    cpu::AttendRow& to = values_.attend_rows[static_cast<size_t>(row)];
    to = {at(q, row), out(op, row), attend.from_source ? sequence.source_pages : sequence.pages};
    to.position = r.position;
    to.n_keys = attend.from_source ? sequence.n_source : attend.causal ? r.position + 1 : sequence.n_keys;
    if (attend.window > 0 && !attend.from_source) to.first_key = std::max<int64_t>(0, r.position + 1 - attend.window);
  }
  cpu::attend(pool_, kernels_, attention, values_.attend_rows, {values_.scratch.as<float>(), values_.scratch.size_bytes() / sizeof(float)});
}

}  // namespace kvik::native

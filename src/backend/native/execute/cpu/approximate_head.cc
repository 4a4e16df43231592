#include "backend/native/execute/cpu/approximate_head.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/vector_clones.h"
#include "kernels/cpu/parallel.h"

namespace kvik::native {
namespace {

// Of a matrix: fewer gain little, and the copy of more takes a tenth of a second or longer when the first token is chosen.
constexpr int64_t kLeastWeights = 1 << 20, kMostWeights = 1 << 24;
constexpr float kLargestWeight = 1e6f;   // whose scale still fits into 16 bits
constexpr double kLeastSquares = 1e-20;  // of a row: below, squares of its elements may become zero
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Approximations that are computed together stay in the first-level cache until the largest have been found.
constexpr int64_t kChunkPanels = 4, kChunkRows = 32;
constexpr int64_t kItemsPerThread = 8;

// The last op of the plan, if its rows need nothing else.
OpIndex head_of(const CpuPlan& cpu_plan) {
  const Plan& plan = *cpu_plan.plan;
  const std::vector<OpIndex>& tail = cpu_plan.section(Op::Section::kTail).ops;
  if (cpu_plan.external == kNoIndex || tail.empty() || plan.one_token || !plan.registers.empty()) return kNoIndex;
  const OpIndex index = tail.back();
  const Op& op = plan.ops[static_cast<size_t>(index)];
  const auto* matmul = op.as<Matmul>();
  if (matmul == nullptr || op.out.front() != cpu_plan.external || op.selection != kNoIndex || matmul->weights.size() != 1) return kNoIndex;
  const LoadedWeight& weight = cpu_plan.weights[static_cast<size_t>(matmul->weights.front())];
  const cpu::WeightLayout& layout = weight.packed.layout;
  const bool has_floats = weight.is_packed() && layout.format == cpu::WeightFormat::kF32;
  const int64_t n_weights = layout.k * layout.n;
  if (!has_floats || n_weights < kLeastWeights || n_weights > kMostWeights || layout.n < 2 * layout.k || !op.in[0].is_value() ||
      op.in[0].size != layout.k)
    return kNoIndex;
  return op.in.size() > 1 && op.in[1] && plan.floats(op.in[1]).empty() ? kNoIndex : index;
}

// Blocks so large that few scales are read.
cpu::WeightLayout layout_of_copy(int64_t k, int64_t n) {
  return cpu::block_layout({8, k % cpu::kRowBlock == 0 ? cpu::kRowBlock : 64, cpu::ScaleFormat::kF32, false}, k, n);
}

KVIK_VECTOR_CLONES float largest_magnitude(const float* values, int64_t n) {
  constexpr int64_t kLanes = 16;
  float lanes[kLanes] = {};
  for (int64_t i = 0; i + kLanes <= n; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = std::max(lanes[lane], std::fabs(values[i + lane]));
  return *std::max_element(lanes, lanes + kLanes);
}

// Of n panels of approximations; NaN is never the largest.
KVIK_VECTOR_CLONES void find_maxima(const float* values, int64_t n, float* maxima) {
  constexpr int64_t kLanes = 16;
  for (int64_t panel = 0; panel < n; ++panel, values += 2 * kLanes) {
    float lanes[kLanes];
    for (int64_t i = 0; i < kLanes; ++i) lanes[i] = values[i + kLanes] > values[i] ? values[i + kLanes] : values[i];
    for (int64_t i = 0; i < 8; ++i) lanes[i] = lanes[i + 8] > lanes[i] ? lanes[i + 8] : lanes[i];
    for (int64_t i = 0; i < 4; ++i) lanes[i] = lanes[i + 4] > lanes[i] ? lanes[i + 4] : lanes[i];
    for (int64_t i = 0; i < 2; ++i) lanes[i] = lanes[i + 2] > lanes[i] ? lanes[i + 2] : lanes[i];
    maxima[panel] = lanes[1] > lanes[0] ? lanes[1] : lanes[0];
  }
}

struct Squares {
  double of_values = 0, of_differences = 0;
};

// Of k values and of what quantizing has changed.
KVIK_VECTOR_CLONES Squares sum_squares(const float* x, const int8_t* q, const float* scale, int64_t k) {
  constexpr int64_t kLanes = 16;
  float values[kLanes] = {}, differences[kLanes] = {};
  for (int64_t i = 0; i < k; i += kLanes) {
    const int64_t n = std::min(kLanes, k - i);
    const float s = scale[i / cpu::kRowBlock];
    for (int64_t lane = 0; lane < n; ++lane) {
      const float v = x[i + lane], d = v - static_cast<float>(q[i + lane]) * s;
      values[lane] += v * v;
      differences[lane] += d * d;
    }
  }
  Squares sum;
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    sum.of_values += static_cast<double>(values[lane]);
    sum.of_differences += static_cast<double>(differences[lane]);
  }
  return sum;
}

}  // namespace

std::shared_ptr<const ApproximateHead> ApproximateHead::make(const CpuPlan& plan, ThreadPool& pool) {
  const OpIndex op = head_of(plan);
  if (op == kNoIndex) return nullptr;
  const auto& matmul = *plan.plan->ops[static_cast<size_t>(op)].as<Matmul>();
  const cpu::PackedWeights& weights = plan.weights[static_cast<size_t>(matmul.weights.front())].packed;
  if (!(largest_magnitude(reinterpret_cast<const float*>(weights.data), weights.layout.size_bytes / 4) < kLargestWeight)) return nullptr;
  return std::shared_ptr<const ApproximateHead>(new ApproximateHead(plan, op, pool));
}

ApproximateHead::ApproximateHead(const CpuPlan& plan, OpIndex op, ThreadPool& pool)
    : plan_(plan.plan),
      op_(op),
      input_(plan_->ops[static_cast<size_t>(op)].in[0]),
      exact_(plan.weights[static_cast<size_t>(plan_->ops[static_cast<size_t>(op)].as<Matmul>()->weights.front())]),
      bias_(nullptr),
      kernels_(plan.kernels) {
  const Op& head = plan_->ops[static_cast<size_t>(op)];
  if (head.in.size() > 1 && head.in[1]) {
    const std::span<const float> bias = plan_->floats(head.in[1]);
    bias_ = bias.data();
    for (const float b : bias) largest_bias_ = std::max(largest_bias_, std::fabs(static_cast<double>(b)));
  }
  const cpu::WeightLayout& from = exact_.packed.layout;
  const cpu::WeightLayout all = layout_of_copy(from.k, from.n);
  approximate_.memory = AlignedBuffer(static_cast<size_t>(all.size_bytes));
  approximate_.view = {all, approximate_.memory.data()};
  cpu::WeightLayout two = all;  // panels, as many columns as a panel of floats
  two.n_panels = kPanel / all.panel_columns;
  pool.for_each(from.n_panels, [&](int64_t panel) {
    const int64_t first = panel * two.n_panels;
    cpu::WeightLayout own = two;
    own.n = std::min(kPanel, from.n - panel * kPanel);
    own.n_panels = std::min(two.n_panels, all.n_panels - first);
    const cpu::FloatSource source{DType::kF32, exact_.packed.data + panel * from.panel_bytes, from.k, kPanel, false};
    cpu::pack_panels(source, own, approximate_.memory.data() + first * all.panel_bytes, {0, own.n_panels});
  });
  measure(pool);
}

void ApproximateHead::measure(ThreadPool& pool) {
  const int64_t n = exact_.packed.layout.n;
  std::vector<double> differences(static_cast<size_t>(n_panels())), lengths(differences.size());
  pool.for_each(n_panels(), [&](int64_t panel) {
    std::vector<float> exact(static_cast<size_t>(k())), copy(exact.size());
    for (int64_t column = panel * kPanel; column < std::min(n, (panel + 1) * kPanel); ++column) {
      cpu::unpack_column(exact_.packed, column, exact.data());
      cpu::unpack_column(approximate_.view, column, copy.data());
      double difference = 0, length = 0;
      for (size_t i = 0; i < exact.size(); ++i) {
        const double d = static_cast<double>(exact[i]) - static_cast<double>(copy[i]);
        difference += d * d;
        length += static_cast<double>(copy[i]) * static_cast<double>(copy[i]);
      }
      double& most = differences[static_cast<size_t>(panel)];
      most = std::max(most, std::sqrt(difference));
      double& longest = lengths[static_cast<size_t>(panel)];
      longest = std::max(longest, std::sqrt(length));
    }
  });
  difference_ = *std::ranges::max_element(differences);
  length_ = *std::ranges::max_element(lengths);
}

size_t ApproximateHead::quantized_bytes(int64_t n_rows) const { return static_cast<size_t>(n_rows) * cpu::quantized_bytes(1, k()); }

// With the copy w' of a column w and the quantized row x': |x.w - x'.w'| = |x.(w - w') + (x - x').w'|, at most |x| |w - w'| + |x - x'| |w'|
// (Cauchy and Schwarz). Rounding adds less than k times half a unit in the last place of |x| |w| to each of the two sums.
float ApproximateHead::error_of(const float* x, const cpu::QuantizedRows& rows, int64_t row) const {
  const Squares squares = sum_squares(x, rows.q + row * rows.n_steps * 32, rows.scale + row * rows.n_blocks, k());
  if (!(squares.of_values > kLeastSquares)) return std::numeric_limits<float>::infinity();
  const double length = std::sqrt(squares.of_values), change = std::sqrt(squares.of_differences);
  const double rounding = 0x1p-23 * (static_cast<double>(k() + 64) * length * (length_ + difference_) + 4 * largest_bias_);
  return static_cast<float>(1.001 * (length * difference_ + change * length_ + rounding));
}

void ApproximateHead::approximate(ThreadPool& pool, const cpu::FloatRows& x, const Approximations& to) const {
  const cpu::QuantizedRows rows = cpu::quantized_rows(to.quantized, x.n_rows, k(), cpu::row_part(approximate_.view.layout));
  pool.for_ranges(x.n_rows, std::max<int64_t>(1, (16 << 10) / k()), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      kernels_.quantize_row(x.data + row * x.stride, rows, row);
      to.errors[static_cast<size_t>(row)] = error_of(x.data + row * x.stride, rows, row);
    }
  });
  const int64_t n_chunks = (n_panels() + kChunkPanels - 1) / kChunkPanels;
  pool.for_ranges(n_chunks, n_chunks / (kItemsPerThread * pool.n_threads()), [&](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) find_chunk_maxima(rows, chunk, to.maxima);
  });
}

void ApproximateHead::find_chunk_maxima(const cpu::QuantizedRows& rows, int64_t chunk, float* maxima) const {
  constexpr int64_t kColumns = kChunkPanels * kPanel;
  const int64_t first_panel = chunk * kChunkPanels, first = first_panel * kPanel;
  cpu::PackedWeights weights = approximate_.view;
  weights.data += first / weights.layout.panel_columns * weights.layout.panel_bytes;
  weights.layout.n = std::min(kColumns, weights.layout.n - first);
  weights.layout.n_panels = (weights.layout.n + weights.layout.panel_columns - 1) / weights.layout.panel_columns;
  alignas(64) float values[kChunkRows * kColumns];
  if (weights.layout.n < kColumns) std::ranges::fill(values, kMinusInfinity);
  for (int64_t row = 0; row < rows.n_rows; row += kChunkRows) {
    const int64_t n_rows = std::min(kChunkRows, rows.n_rows - row);
    const cpu::MatmulOut out{values, kColumns, bias_ == nullptr ? nullptr : bias_ + first};
    kernels_.matmul_quantized(weights, cpu::rows_from(rows, row, n_rows), out, {0, weights.layout.n_panels});
    for (int64_t i = 0; i < n_rows; ++i)
      find_maxima(values + i * kColumns, std::min(kChunkPanels, n_panels() - first_panel), maxima + (row + i) * n_panels() + first_panel);
  }
}

void ApproximateHead::find_largest(const Row& row, std::vector<TokenLogit>& found) const {
  found.clear();
  const float most = *std::ranges::max_element(row.maxima);
  // The logit behind this one is at least most - error, so that the largest has an approximation of at least:
  const float bound = most - 2.001f * row.error;
  if (!std::isfinite(bound)) return;
  const auto n_candidates = std::ranges::count_if(row.maxima, [&](float x) { return x >= bound; });
  if (n_candidates > n_panels() / 8) return;
  for (int64_t panel = 0; panel < n_panels(); ++panel) {
    if (row.maxima[static_cast<size_t>(panel)] >= bound && !find_in_panel(panel, row.x, found)) return found.clear();
  }
}

// Keeps the largest of `found` and of the panel's logits. False if one is not a number, which ranks nowhere.
bool ApproximateHead::find_in_panel(int64_t panel, const float* x, std::vector<TokenLogit>& found) const {
  cpu::PackedWeights weights = exact_.packed;
  weights.data += panel * weights.layout.panel_bytes;
  weights.layout.n = std::min(kPanel, weights.layout.n - panel * kPanel);
  weights.layout.n_panels = 1;
  float logits[kPanel];
  kernels_.matmul(weights, {x, k(), 1}, {logits, kPanel, bias_ == nullptr ? nullptr : bias_ + panel * kPanel}, {0, 1});
  for (int64_t i = 0; i < weights.layout.n; ++i) {
    if (std::isnan(logits[i])) return false;
    if (!found.empty() && logits[i] < found.front().logit) continue;
    if (!found.empty() && logits[i] > found.front().logit) found.clear();
    found.push_back({logits[i], static_cast<TokenId>(panel * kPanel + i)});
  }
  return true;
}

void ApproximateHead::multiply(const float* x, float* logits) const {
  kernels_.matmul(exact_.packed, {x, k(), 1}, {logits, padded_n(), bias_}, {0, n_panels()});
}

}  // namespace kvik::native

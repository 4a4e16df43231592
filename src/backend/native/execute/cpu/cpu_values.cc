#include "backend/native/execute/cpu/cpu_values.h"

#include <algorithm>

#include "kernels/cpu/rows.h"

namespace kvik::native {

void grow(AlignedBuffer& buffer, int64_t n_bytes) {
  if (static_cast<int64_t>(buffer.size_bytes()) < n_bytes) buffer = AlignedBuffer(static_cast<size_t>(n_bytes + n_bytes / 4));
}

void CpuValues::reserve_scratch(int64_t n_rows, int64_t most_keys) {
  int64_t n_bytes = 0;
  for (const QuantizedShape& shape : quantized) {
    const int64_t n = n_rows * shape.n_rows;
    const size_t bytes = shape.activations == Activations::kBlocks ? cpu::quantized_bytes(n, shape.k) : cpu::byte_rows_bytes(n, shape.k);
    n_bytes = std::max(n_bytes, static_cast<int64_t>(bytes));
  }
  for (const cpu::Attention& attention : attentions)
    n_bytes = std::max(n_bytes, 4 * cpu::attend_scratch_floats(attention, n_rows, most_keys));
  grow(scratch, n_bytes);
}

std::vector<CpuValues::QuantizedShape> quantized_shapes(const Plan& plan, std::span<const LoadedWeight> weights) {
  std::vector<CpuValues::QuantizedShape> shapes;
  for (const Op& op : plan.ops) {
    const auto* matmul = op.as<Matmul>();
    if (matmul == nullptr) continue;
    const LoadedWeight& weight = weights[static_cast<size_t>(matmul->weights.front())];
    const int64_t k = plan.weights[static_cast<size_t>(matmul->weights.front())].k;
    const CpuValues::QuantizedShape shape{weight.activations, std::max<int64_t>(1, op.in[0].size / k), k};
    if (shape.activations != Activations::kFloats && std::ranges::find(shapes, shape) == shapes.end()) shapes.push_back(shape);
  }
  return shapes;
}

}  // namespace kvik::native

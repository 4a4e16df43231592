#pragma once

#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "kernels/cpu/parallel.h"

namespace kvik::bench {

// A weights format and the format of the input rows.
struct Format {
  std::string name;
  cpu::WeightFormat format = cpu::WeightFormat::kF32;
  cpu::BlockFormat blocks{};
  bool quantized_rows = false;

  bool is_blocks() const { return cpu::block_bits(format) > 0; }
  cpu::WeightLayout layout(int64_t k, int64_t n) const {
    return is_blocks() ? cpu::block_layout(blocks, k, n) : cpu::float_layout(format, k, n);
  }
};

inline std::vector<Format> formats() {
  using cpu::ScaleFormat, cpu::WeightFormat;
  return {
      {"q8", WeightFormat::kBlocks8, {8, 128, ScaleFormat::kF16, false}, true},
      {"q8 block 32", WeightFormat::kBlocks8, {8, 32, ScaleFormat::kF16, false}, true},
      {"q6", WeightFormat::kBlocks6, {6, 32, ScaleFormat::kF16, false}, true},
      {"q4", WeightFormat::kBlocks4, {4, 32, ScaleFormat::kF16, false}, true},
      {"q4 zero points", WeightFormat::kBlocks4, {4, 32, ScaleFormat::kF32, true}, true},
      {"q4 block 128 f32", WeightFormat::kBlocks4, {4, 128, ScaleFormat::kF32, false}, true},
      {"q8, f32 rows", WeightFormat::kBlocks8, {8, 32, ScaleFormat::kF16, false}, false},
      {"q4, f32 rows", WeightFormat::kBlocks4, {4, 32, ScaleFormat::kF16, false}, false},
      {"f16", WeightFormat::kF16},
      {"bf16", WeightFormat::kBF16},
      {"f32", WeightFormat::kF32},
  };
}

// Rows of a given width, in f32 and quantized for weights in blocks of 32 and of 128.
struct Inputs {
  Inputs(int64_t n_rows, int64_t k) : x(static_cast<size_t>(n_rows * k)) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) * 0.02f;
    for (const int64_t part : {32, 128}) {
      memory.emplace_back(cpu::quantized_bytes(n_rows, k));
      quantized.push_back(cpu::quantized_rows(memory.back().data(), n_rows, k, part));
      for (int64_t r = 0; r < n_rows; ++r) cpu::fastest().quantize_row(x.data() + r * k, quantized.back(), r);
    }
  }
  const cpu::QuantizedRows& quantized_for(const cpu::WeightLayout& layout) const { return quantized[cpu::row_part(layout) == 32 ? 0 : 1]; }
  std::vector<float> x;
  std::vector<AlignedBuffer> memory;
  std::vector<cpu::QuantizedRows> quantized;
};

inline void multiply(ThreadPool& pool, const cpu::CpuKernels& kernels, const Format& format, const cpu::PackedWeights& weights,
                     const Inputs& inputs, int64_t n_rows, float* out) {
  const cpu::MatmulOut to{out, weights.layout.n, nullptr};
  if (format.quantized_rows) {
    cpu::matmul(pool, kernels, weights, cpu::rows_from(inputs.quantized_for(weights.layout), 0, n_rows), to);
  } else {
    cpu::matmul(pool, kernels, weights, cpu::FloatRows{inputs.x.data(), weights.layout.k, n_rows}, to);
  }
}

}  // namespace kvik::bench

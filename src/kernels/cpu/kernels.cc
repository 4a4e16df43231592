#include "kernels/cpu/kernels.h"

#include <array>

#include "base/cpu_features.h"

// Set by instruction_sets.cmake, which also leaves out what they leave out: KVIK_SCALAR_ONLY, KVIK_NO_AVX512.
#if defined(__x86_64__) && !defined(KVIK_SCALAR_ONLY) && !defined(KVIK_NO_AVX512)
#define KVIK_HAS_AVX512
#endif

namespace kvik::cpu {

namespace scalar {
extern const CpuKernels kernels;
}
namespace avx2 {
extern const CpuKernels kernels;
}
namespace avx512 {
extern const CpuKernels kernels;
}
#if defined(KVIK_HAS_AVX512)
namespace avx512_prefetch {
void matmul(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range);
void matmul_quantized(const PackedWeights& weights, const QuantizedRows& x, const MatmulOut& out, PanelRange range);
}  // namespace avx512_prefetch
namespace amx {
void matmul_tiles(const PackedWeights& weights, const QuantizedRows& x, const MatmulOut& out, PanelRange range);
void matmul_byte_tiles(const PackedWeights& weights, const ByteRows& x, const MatmulOut& out, PanelRange range);
}  // namespace amx
#endif
namespace neon {
extern const CpuKernels kernels;
}

namespace {

struct Found {
  std::array<const CpuKernels*, 4> tables{};
  size_t count = 0;
};

#if defined(KVIK_HAS_AVX512)
CpuKernels with_prefetches() {
  CpuKernels kernels = avx512::kernels;
  kernels.matmul = avx512_prefetch::matmul;
  kernels.matmul_quantized = avx512_prefetch::matmul_quantized;
  return kernels;
}

const CpuKernels* avx512_kernels(const CpuFeatures& features) {
  static const CpuKernels prefetching = with_prefetches();
  return features.reads_ahead ? &avx512::kernels : &prefetching;
}

// Products of several quantized rows use tiles.
const CpuKernels* amx_kernels() {
  static const CpuKernels table = [] {
    CpuKernels kernels = with_prefetches();
    kernels.name = "amx";
    kernels.byte_row_tile = 64;
    kernels.matmul_quantized = amx::matmul_tiles;
    kernels.matmul_bytes = amx::matmul_byte_tiles;
    return kernels;
  }();
  return &table;
}
#endif

Found find_tables() {
  Found found;
  [[maybe_unused]] const CpuFeatures features = detect_cpu_features();
#if defined(KVIK_SCALAR_ONLY)
  // Nothing else was compiled.
#elif defined(__x86_64__)
#if defined(KVIK_HAS_AVX512)
  if (features.avx512_vnni && features.amx_int8 && enable_amx()) found.tables[found.count++] = amx_kernels();
  if (features.avx512_vnni) found.tables[found.count++] = avx512_kernels(features);
#endif
  if (features.avx2) found.tables[found.count++] = &avx2::kernels;
#elif defined(__aarch64__)
  if (features.neon) found.tables[found.count++] = &neon::kernels;
#endif
  found.tables[found.count++] = &scalar::kernels;
  return found;
}

const Found& found_tables() {
  static const Found found = find_tables();
  return found;
}

}  // namespace

std::span<const CpuKernels* const> available() { return {found_tables().tables.data(), found_tables().count}; }

const CpuKernels& fastest() { return *available().front(); }

const CpuKernels* by_name(std::string_view name) {
  for (const CpuKernels* table : available())
    if (name == table->name) return table;
  return nullptr;
}

}  // namespace kvik::cpu

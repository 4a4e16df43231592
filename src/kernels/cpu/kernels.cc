#include "kernels/cpu/kernels.h"

#include <array>

#include "base/cpu_features.h"

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
namespace neon {
extern const CpuKernels kernels;
}

namespace {

struct Found {
  std::array<const CpuKernels*, 4> tables{};
  size_t count = 0;
};

Found find_tables() {
  Found found;
  [[maybe_unused]] const CpuFeatures features = detect_cpu_features();
#if defined(KVIK_SCALAR_ONLY)
  // Nothing else was compiled.
#elif defined(__x86_64__)
  if (features.avx512_vnni) found.tables[found.count++] = &avx512::kernels;
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

#include "base/cpu_features.h"

#include <cstdint>
#include <initializer_list>
#include <sched.h>
#include <thread>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace kvik {
namespace {

#if defined(__x86_64__)

struct CpuidLeaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuidLeaf cpuid(uint32_t leaf, uint32_t subleaf) {
  CpuidLeaf r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);  // zeros if the leaf does not exist
  return r;
}

constexpr bool bit(uint32_t word, int index) { return ((word >> index) & 1u) != 0; }

// Register states that the operating system saves; without OSXSAVE, only SSE.
uint64_t enabled_states(const CpuidLeaf& leaf1) {
  if (!bit(leaf1.ecx, 27)) return 0;
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

bool is_zen4(const CpuidLeaf& leaf1) {
  const CpuidLeaf vendor = cpuid(0, 0);
  const bool is_amd = vendor.ebx == 0x68747541 && vendor.edx == 0x69746e65 && vendor.ecx == 0x444d4163;  // "AuthenticAMD"
  const uint32_t family = (leaf1.eax >> 8 & 0xf) + (leaf1.eax >> 20 & 0xff), model = (leaf1.eax >> 4 & 0xf) | (leaf1.eax >> 12 & 0xf0);
  return is_amd && family == 0x19 && ((model >= 0x10 && model < 0x20) || model >= 0x60);
}

CpuFeatures detect() {
  const CpuidLeaf leaf1 = cpuid(1, 0), leaf7 = cpuid(7, 0), leaf7_1 = cpuid(7, 1);
  const uint64_t states = enabled_states(leaf1);
  const bool ymm = (states & 0x6) == 0x6, zmm = (states & 0xe6) == 0xe6, tiles = (states & 0x60000) == 0x60000;
  CpuFeatures f;
  f.avx2 = ymm && bit(leaf7.ebx, 5) && bit(leaf1.ecx, 12) && bit(leaf1.ecx, 29);
  f.avx512 = f.avx2 && zmm && bit(leaf7.ebx, 16) && bit(leaf7.ebx, 17) && bit(leaf7.ebx, 30) && bit(leaf7.ebx, 31);
  f.avx512_vnni = f.avx512 && bit(leaf7.ecx, 11);
  f.avx512_bf16 = f.avx512 && bit(leaf7_1.eax, 5);
  f.amx_tile = tiles && bit(leaf7.edx, 24);
  f.amx_int8 = f.amx_tile && bit(leaf7.edx, 25);
  f.amx_bf16 = f.amx_tile && bit(leaf7.edx, 22);
  f.reads_ahead = is_zen4(leaf1);
  return f;
}

bool request_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA
  return detect().amx_tile && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

#else

bool request_tiles() { return false; }

CpuFeatures detect() {
  CpuFeatures f;
#if defined(__aarch64__)
  f.neon = true;  // part of the base architecture
#endif
  return f;
}

#endif

}  // namespace

CpuFeatures detect_cpu_features() { return detect(); }

bool enable_amx() {
  static const bool enabled = request_tiles();
  return enabled;
}

std::string describe(const CpuFeatures& f) {
  std::string text;
  const std::initializer_list<std::pair<bool, const char*>> named = {
      {f.avx2, "avx2"},         {f.avx512, "avx512"},     {f.avx512_vnni, "avx512_vnni"}, {f.avx512_bf16, "avx512_bf16"},
      {f.amx_tile, "amx_tile"}, {f.amx_int8, "amx_int8"}, {f.amx_bf16, "amx_bf16"},       {f.neon, "neon"}};
  for (const auto& [present, name] : named) {
    if (!present) continue;
    if (!text.empty()) text += ' ';
    text += name;
  }
  return text.empty() ? "none" : text;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  const unsigned n = std::thread::hardware_concurrency();
  return n == 0 ? 1 : static_cast<int>(n);
}

}  // namespace kvik

#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/weights.h"

namespace kvik::device {

// How the codes of 16 columns and 32 k get from the CPU's packing, whose panels have 16 columns too, into a unit: the same for every block
// of a matrix.
class CodeMap {
 public:
  explicit CodeMap(const cpu::WeightLayout& from);

  // `codes`: of the panel, from some k on that is a multiple of 32. `lanes`: of the unit, from the same k on. Eight bits get 128 added.
  void copy(const std::byte* codes, std::byte* lanes) const;

 private:
  struct Pair {  // of four bits, in one byte
    uint16_t low, high;
    uint8_t low_shift, high_shift;
  };
  bool four_bits_;
  std::vector<uint16_t> bytes_;  // by byte of a unit: which of the codes
  std::vector<Pair> pairs_;      // by byte of half a unit
};

// The codes of a panel from `k` on.
const std::byte* codes_at(const cpu::PackedWeights& weights, int64_t panel, int64_t k);

}  // namespace kvik::device

#pragma once

#include "kernels/cpu/body/declarations.h"

// Requires the vec.h of an instruction set.
namespace kvik::cpu::KVIK_ISA {

// Four k of 16 columns in each half of a step, as bytes 0..63.
struct SixBits {
  I low, high;
};

// Line `line` of the four lines of nibbles of a step, with their upper bits. Shifts of 32 bits move bits into neighboring bytes; masks
// remove them.
KVIK_INLINE SixBits six_bits(const uint8_t* step, int line) {
  const I nibbles = iload(step + line * 64), upper = iload(step + 256 + line / 2 * 64);
  const I nibble = ibcast(0x0f0f0f0f), two = ibcast(0x30303030);
  const I low_upper = line % 2 == 0 ? shift_left<4>(upper) : upper,
          high_upper = line % 2 == 0 ? shift_left<2>(upper) : shift_right<2>(upper);
  return {ixor(iand(nibbles, nibble), iand(low_upper, two)), ixor(iand(shift_right<4>(nibbles), nibble), iand(high_upper, two))};
}

}  // namespace kvik::cpu::KVIK_ISA

#include "kernels/device/code_map.h"

#include "kernels/cpu/block_codec.h"
#include "kernels/device/units.h"

namespace kvik::device {
namespace {

constexpr int kBlock = 32, kBytesOfALane = 16;

}  // namespace

CodeMap::CodeMap(const cpu::WeightLayout& from) : four_bits_(from.format == cpu::WeightFormat::kBlocks4) {
  if (four_bits_)
    pairs_.resize(kTileColumns * kBlock / 2);
  else
    bytes_.resize(kTileColumns * kBlock);
  for (int64_t c = 0; c < kTileColumns; ++c) {
    for (int64_t k = 0; k < kBlock; ++k) {
      const cpu::CodePlace place = cpu::code_place(from, c, k);
      const FragmentPlace to = fragment_place(c, k % 16);
      const auto at = static_cast<uint16_t>(place.byte);
      if (!four_bits_) {
        bytes_[static_cast<size_t>(to.lane * kBytesOfALane + k / 16 * 8 + to.reg * 2 + to.half)] = at;
        continue;
      }
      const int64_t nibble = to.reg + 4 * to.half;
      Pair& pair = pairs_[static_cast<size_t>(to.lane * kBytesOfALane / 2 + k / 16 * 4 + nibble / 2)];
      (nibble % 2 == 0 ? pair.low : pair.high) = at;
      (nibble % 2 == 0 ? pair.low_shift : pair.high_shift) = static_cast<uint8_t>(place.shift);
    }
  }
}

void CodeMap::copy(const std::byte* codes, std::byte* lanes) const {
  const auto* from = reinterpret_cast<const uint8_t*>(codes);
  auto* to = reinterpret_cast<uint8_t*>(lanes);
  for (size_t i = 0; i < bytes_.size(); ++i) to[i] = static_cast<uint8_t>(from[bytes_[i]] ^ 0x80);
  for (size_t i = 0; i < pairs_.size(); ++i) {
    const Pair& pair = pairs_[i];
    const unsigned low = (from[pair.low] >> pair.low_shift) & 15u, high = (from[pair.high] >> pair.high_shift) & 15u;
    to[i / 8 * kBytesOfALane + i % 8] = static_cast<uint8_t>(low | high << 4);
  }
}

const std::byte* codes_at(const cpu::PackedWeights& weights, int64_t panel, int64_t k) {
  const cpu::WeightLayout& layout = weights.layout;
  const int64_t block_bytes = layout.format == cpu::WeightFormat::kBlocks4 ? kBlock * kTileColumns / 2 : kBlock * kTileColumns;
  return weights.data + cpu::block_place(layout, panel, k / layout.block).bytes_offset + k % layout.block / kBlock * block_bytes;
}

}  // namespace kvik::device

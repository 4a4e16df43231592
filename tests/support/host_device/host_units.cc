#include "support/host_device/host_units.h"

#include "kernels/device/order.h"
#include "tensor/small_float.h"

namespace kvik::testing_support {

using device::WeightFormat;

UnitReader::UnitReader(const device::Weights& weights)
    : weights_(weights),
      layout_(device::unit_layout(weights.format, weights.k, weights.n)),
      has_scales_(weights.scales != device::Address::kNone),
      four_bits_(weights.format == WeightFormat::kQ4 || weights.format == WeightFormat::kQ4Zero),
      zero_points_(weights.format == WeightFormat::kQ8Zero || weights.format == WeightFormat::kQ4Zero) {}

const std::byte* UnitReader::unit(int64_t n, int64_t k) const {
  return at(weights_.units, (n / 16 * layout_.units_per_tile + k / layout_.unit_columns) * layout_.unit_bytes);
}

const std::byte* UnitReader::scale_at(int64_t n, int64_t k) const {
  const int64_t block = k % layout_.unit_columns / device::kBlockColumns, c = n % 16;
  return unit(n, k) + 512 + (block * 16 + c % 8 * 2 + c / 8) * (zero_points_ ? 8 : 2);
}

uint16_t UnitReader::factor(int64_t n, int64_t k, int plane) const {
  const int64_t g = n % 8, t = k % 8 / 2, reg = n % 16 / 8 + k % 16 / 8 * 2, half = k % 2, step = k % layout_.unit_columns / 16;
  const std::byte* lane = unit(n, k) + (g * 4 + t) * 16;
  uint16_t bits = 0;
  if (is_float()) {
    std::memcpy(&bits, lane + plane * 1024 + step * 512 + reg * 4 + half * 2, 2);
    return bits;
  }
  int code, zero_point = four_bits_ ? 8 : 128;
  if (four_bits_) {
    const int64_t nibble = reg + 4 * half;
    code = std::to_integer<int>(lane[step * 4 + nibble / 2]) >> (nibble % 2 * 4) & 15;
  } else {
    code = std::to_integer<int>(lane[step * 8 + reg * 2 + half]);
  }
  if (zero_points_) {
    Half stored;
    std::memcpy(&stored.bits, scale_at(n, k) + 4, 2);
    zero_point = static_cast<int>(float{stored}) - 1024;
  }
  return Half(static_cast<float>(code - zero_point)).bits;
}

float UnitReader::block_scale(int64_t n, int64_t k) const {
  if (is_float()) return 1.0f;
  float scale = 0;
  Half small;
  if (zero_points_) {
    std::memcpy(&scale, scale_at(n, k), 4);
    return scale;
  }
  std::memcpy(&small.bits, scale_at(n, k), 2);
  return small;
}

float UnitReader::value(int64_t n, int64_t k) const {
  Half high, low;
  high.bits = factor(n, k);
  if (n_planes() == 2) low.bits = factor(n, k, 1);
  float x = float{high} * block_scale(n, k);
  if (n_planes() == 2) x = x + float{low} * (1.0f / device::kPlaneStep);
  return x * column_scale(n);
}

}  // namespace kvik::testing_support

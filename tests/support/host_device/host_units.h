#pragma once

#include "kernels/device/units.h"
#include "support/host_device/host_steps.h"

namespace kvik::testing_support {

// Elements of a packed matrix.
class UnitReader {
 public:
  explicit UnitReader(const device::Weights& weights);

  // What a product multiplies: an f16 of a plane, or an integer as f16.
  uint16_t factor(int64_t n, int64_t k, int plane = 0) const;
  float block_scale(int64_t n, int64_t k) const;  // 1 for floats
  float column_scale(int64_t n) const { return has_scales_ ? at<float>(weights_.scales)[n] : 1.0f; }
  float value(int64_t n, int64_t k) const;

  bool is_float() const { return layout_.format == device::WeightFormat::kF16 || layout_.format == device::WeightFormat::kF32; }
  int n_planes() const { return layout_.format == device::WeightFormat::kF32 ? 2 : 1; }
  int64_t padded_k() const { return layout_.units_per_tile * layout_.unit_columns; }

 private:
  const std::byte* unit(int64_t n, int64_t k) const;
  const std::byte* scale_at(int64_t n, int64_t k) const;

  device::Weights weights_;
  device::UnitLayout layout_;
  bool has_scales_, four_bits_, zero_points_;
};

}  // namespace kvik::testing_support

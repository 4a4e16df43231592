#include "backend/native/execute/device/device_weights.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

#include "kernels/device/units.h"
#include "kvik/error.h"

namespace kvik::native {
namespace {

constexpr int64_t kPackedBytes = int64_t{32} << 20;  // that are packed before they are sent

void check_device_memory(const Plan& plan, WeightChoice choice, const device::Device& device) {
  int64_t needed = 0;
  for (const ChosenWeight& weight : choose_weights(plan, choice)) needed += weight.size_bytes;
  const auto available = static_cast<int64_t>(device.free_bytes());
  if (needed <= available) return;
  throw Error(Code::kTooLarge,
              fmt::format("the weights would take {:.1f} GB in this form, and {} has {:.1f} GB of memory free; use a smaller format with "
                          "--weights f16, q8 or q4, or --device cpu",
                          static_cast<double>(needed) / 1e9, device.facts().name, static_cast<double>(available) / 1e9));
}

class DevicePacker {
 public:
  DevicePacker(const std::shared_ptr<SharedDevice>& shared, ThreadPool& pool, DeviceWeights& weights)
      : shared_(shared), pool_(pool), weights_(weights) {}

  template <class Source>
  device::Weights pack(const Source& source, const device::UnitLayout& layout) {
    device::Weights made{.format = layout.format, .k = static_cast<int32_t>(layout.k), .n = static_cast<int32_t>(layout.n)};
    DeviceBuffer units(shared_, static_cast<size_t>(layout.size_bytes), "the weights");
    std::vector<float> scales(static_cast<size_t>(layout.n), 1.0f);
    const int64_t tile_bytes = layout.units_per_tile * layout.unit_bytes;
    const int64_t step = std::max<int64_t>(1, kPackedBytes / std::max<int64_t>(1, tile_bytes));
    std::vector<std::byte> packed(static_cast<size_t>(std::min(step, layout.n_tiles) * tile_bytes));
    for (int64_t begin = 0; begin < layout.n_tiles; begin += step) {
      const int64_t end = std::min(begin + step, layout.n_tiles);
      std::ranges::fill(packed, std::byte{0});
      pool_.for_ranges(end - begin, 8, [&](int64_t from, int64_t to) {
        device::pack_units(source, layout, {begin + from, begin + to}, packed.data() + from * tile_bytes, scales);
      });
      units.write(static_cast<size_t>(begin * tile_bytes), std::span(packed).first(static_cast<size_t>((end - begin) * tile_bytes)));
    }
    made.units = units.address();
    weights_.buffers.push_back(std::move(units));
    if (std::ranges::all_of(scales, [](float scale) { return scale == 1.0f; })) return made;
    DeviceBuffer scale_buffer(shared_, scales.size() * sizeof(float), "the weights");
    scale_buffer.write(0, std::as_bytes(std::span(scales)));
    made.scales = scale_buffer.address();
    weights_.buffers.push_back(std::move(scale_buffer));
    return made;
  }

  // Nothing if no kernel reads such weights.
  std::optional<device::Weights> pack(const LoadedWeight& weight) {
    if (weight.activations == Activations::kBytes) return std::nullopt;
    if (weight.is_packed()) return pack_cpu(weight.packed.view);
    if (weight.floats) {
      const bool half = weight.floats->dtype == DType::kF16 || weight.floats->dtype == DType::kBF16;
      const device::WeightFormat format = half ? device::WeightFormat::kF16 : device::WeightFormat::kF32;
      return pack(*weight.floats, device::unit_layout(format, weight.floats->k, weight.floats->n));
    }
    return pack_codes(*weight.codes);
  }

 private:
  std::optional<device::Weights> pack_cpu(const cpu::PackedWeights& packed) {
    const std::optional<device::WeightFormat> format = device::unit_format(packed.layout);
    if (!format) return std::nullopt;
    return pack(packed, device::unit_layout(*format, packed.layout.k, packed.layout.n));
  }

  std::optional<device::Weights> pack_codes(const cpu::QuantSource& codes) {
    cpu::Weights packed;
    try {
      packed = cpu::pack(pool_, codes);
    } catch (const Error& e) {
      if (e.code() != Code::kUnsupported) throw;
      return std::nullopt;  // no layout keeps them; rows are looked up on the host
    }
    return pack_cpu(packed.view);
  }

  const std::shared_ptr<SharedDevice>& shared_;
  ThreadPool& pool_;
  DeviceWeights& weights_;
};

}  // namespace

DeviceWeights load_device_weights(const Plan& plan, WeightChoice choice, const std::shared_ptr<SharedDevice>& shared, ThreadPool& pool,
                                  const Log& log) {
  check_device_memory(plan, choice, *shared->device);
  DeviceWeights weights;
  weights.of_weight.resize(plan.weights.size());
  weights.on_host.resize(plan.weights.size());
  DevicePacker packer(shared, pool, weights);
  load_each_weight(plan, choice, pool, log, [&](size_t i, LoadedWeight weight) {
    if (const std::optional<device::Weights> packed = packer.pack(weight))
      weights.of_weight[i] = *packed;
    else
      weights.on_host[i] = std::move(weight);
  });
  return weights;
}

}  // namespace kvik::native

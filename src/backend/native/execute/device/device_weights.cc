#include "backend/native/execute/device/device_weights.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

#include "backend/native/execute/weight_source.h"
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
    pack_into(units.address(), source, layout, scales, [](ColumnRange) {});
    made.units = units.address();
    weights_.buffers.push_back(std::move(units));
    if (std::ranges::all_of(scales, [](float scale) { return scale == 1.0f; })) return made;
    DeviceBuffer scale_buffer(shared_, scales.size() * sizeof(float), "the weights");
    scale_buffer.write(0, std::as_bytes(std::span(scales)));
    made.scales = scale_buffer.address();
    weights_.buffers.push_back(std::move(scale_buffer));
    return made;
  }

  // f16 as the file has it, without the CPU's packing. Nothing if the matrix is something else.
  std::optional<device::Weights> pack_stored(const Plan& plan, const PlanWeight& weight, const ChosenWeight& chosen) {
    if (!chosen.is_multiplied || chosen.as_stored || chosen.format != cpu::WeightFormat::kF16) return std::nullopt;
    if (chosen.activations != Activations::kFloats) return std::nullopt;
    std::vector<WeightSource> sources;
    int64_t n = 0;
    for (const WeightPart& part : weight.parts) {
      sources.push_back(weight_source(plan, part));
      if (!sources.back().floats || sources.back().floats->dtype != DType::kF16 || n % device::kTileColumns != 0) return std::nullopt;
      n += part.n;
    }
    const device::UnitLayout whole = device::unit_layout(device::WeightFormat::kF16, weight.k, weight.n);
    DeviceBuffer units(shared_, static_cast<size_t>(whole.size_bytes), "the weights");
    int64_t at = 0;
    for (size_t i = 0; i < sources.size(); ++i) {
      const device::UnitLayout layout = device::unit_layout(device::WeightFormat::kF16, weight.k, weight.parts[i].n);
      std::vector<float> scales(static_cast<size_t>(layout.n));
      pack_into(units.address() + at, *sources[i].floats, layout, scales,
                [&](ColumnRange columns) { check_finite(plan, weight.parts[i], sources[i], columns, pool_); });
      drop_columns(sources[i], {0, layout.n});
      at += layout.size_bytes;
    }
    device::Weights made{.format = whole.format, .k = static_cast<int32_t>(whole.k), .n = static_cast<int32_t>(whole.n)};
    made.units = units.address();
    weights_.buffers.push_back(std::move(units));
    return made;
  }

  // Nothing if no kernel reads such weights.
  std::optional<device::Weights> pack(const LoadedWeight& weight) {
    if (weight.activations == Activations::kBytes) return std::nullopt;
    if (weight.is_packed()) return pack_cpu(weight.packed);
    if (weight.floats) {
      const bool half = weight.floats->dtype == DType::kF16 || weight.floats->dtype == DType::kBF16;
      const device::WeightFormat format = half ? device::WeightFormat::kF16 : device::WeightFormat::kF32;
      return pack(*weight.floats, device::unit_layout(format, weight.floats->k, weight.floats->n));
    }
    return pack_codes(*weight.codes);
  }

 private:
  // `check` sees the columns before they are packed.
  template <class Source, class Check>
  void pack_into(device::Address address, const Source& source, const device::UnitLayout& layout, std::span<float> scales,
                 const Check& check) {
    const int64_t tile_bytes = layout.units_per_tile * layout.unit_bytes;
    const int64_t step = std::max<int64_t>(1, kPackedBytes / std::max<int64_t>(1, tile_bytes));
    for (int64_t begin = 0; begin < layout.n_tiles; begin += step) {
      const int64_t end = std::min(begin + step, layout.n_tiles);
      check({begin * device::kTileColumns, std::min(end * device::kTileColumns, layout.n)});
      PinnedBuffer& packed = next_buffer(static_cast<size_t>((end - begin) * tile_bytes));
      pool_.for_ranges(end - begin, 8, [&](int64_t from, int64_t to) {
        device::pack_units(source, layout, {begin + from, begin + to}, packed.data() + from * tile_bytes, scales);
      });
      send(address + begin * tile_bytes, packed, static_cast<size_t>((end - begin) * tile_bytes));
    }
  }

  // While one buffer is sent the other one is filled.
  PinnedBuffer& next_buffer(size_t n_bytes) {
    std::swap(buffers_[0], buffers_[1]);
    if (buffers_[0].size_bytes() < n_bytes) buffers_[0] = PinnedBuffer();
    if (buffers_[0].size_bytes() == 0) buffers_[0] = PinnedBuffer(shared_, std::max(n_bytes, static_cast<size_t>(kPackedBytes)));
    return buffers_[0];
  }
  void send(device::Address to, const PinnedBuffer& from, size_t n_bytes) {
    const std::lock_guard lock(shared_->mutex);
    shared_->device->wait();  // for the other buffer
    shared_->device->copy(to, from.address(), n_bytes);
  }

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
  PinnedBuffer buffers_[2];
};

}  // namespace

DeviceWeights load_device_weights(const Plan& plan, WeightChoice choice, const std::shared_ptr<SharedDevice>& shared, ThreadPool& pool,
                                  const Log& log) {
  check_device_memory(plan, choice, *shared->device);
  DeviceWeights weights;
  weights.of_weight.resize(plan.weights.size());
  weights.on_host.resize(plan.weights.size());
  DevicePacker packer(shared, pool, weights);
  const auto take = [&](size_t i, LoadedWeight weight) {
    if (const std::optional<device::Weights> packed = packer.pack(weight))
      weights.of_weight[i] = *packed;
    else
      weights.on_host[i] = std::move(weight);
  };
  load_each_weight(plan, choice, pool, log, take, [&](size_t i, const ChosenWeight& chosen) {
    const std::optional<device::Weights> packed = packer.pack_stored(plan, plan.weights[i], chosen);
    if (packed) weights.of_weight[i] = *packed;
    return packed.has_value();
  });
  return weights;
}

}  // namespace kvik::native

#include "device/scenario.h"

#include <bit>
#include <cmath>
#include <fmt/format.h>

#include "kernels/cpu/pack.h"
#include "kernels/device/order.h"
#include "tensor/small_float.h"

namespace kvik::testing_support {

using namespace device;

Scenario::~Scenario() {
  for (const Address address : memory_) device_.release(address);
}

std::vector<float> Scenario::floats(int64_t n, float scale) {
  std::normal_distribution<float> normal(0.0f, 1.0f);
  std::uniform_int_distribution<int> exponent(-6, 2), often(0, 31);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values)
    value = often(random_) == 0 ? 0.0f : scale * std::ldexp(normal(random_), often(random_) < 8 ? exponent(random_) : 0);
  return values;
}

void Scenario::add_attention(Attend attend, int n, int spans_a_part, int most_keys) {
  const int positions = kSpanPositions * spans_a_part, value_dim = attend.layout.value_dim;
  attend.parts.spans_a_part = spans_a_part;
  attend.parts.n_parts = (most_keys + positions - 1) / positions;
  attend.parts.parts = room(int64_t{n} * attend.n_heads * attend.parts.n_parts * (2 + value_dim) * 4);
  add(attend);
  add(MergeSpans{.rows = attend.rows,
                 .n_heads = attend.n_heads,
                 .value_dim = value_dim,
                 .rule = attend.rule,
                 .parts = attend.parts,
                 .out = output(n, attend.n_heads * value_dim * 4)});
}

int Scenario::integer(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }

Address Scenario::put(std::span<const std::byte> bytes) {
  const Address address = device_.allocate(bytes.size(), "a test");
  memory_.push_back(address);
  device_.write(address, bytes);
  return address;
}

Address Scenario::room(int64_t n_bytes) { return put(std::vector<uint8_t>(static_cast<size_t>(n_bytes), 0xff)); }

View Scenario::values(int64_t n_rows, int64_t n) { return values_of(n_rows, n, floats(n_rows * n)); }

View Scenario::values_of(int64_t n_rows, int64_t n, const std::vector<float>& numbers) {
  const int64_t stride = (n * 4 + 63) / 64 * 64;
  std::vector<std::byte> bytes(static_cast<size_t>(n_rows * stride), std::byte{0xff});
  for (int64_t row = 0; row < n_rows; ++row) std::memcpy(bytes.data() + row * stride, numbers.data() + row * n, static_cast<size_t>(n) * 4);
  return {put(bytes), stride};
}

View Scenario::scratch(int64_t n_rows, int64_t row_bytes) {
  const int64_t stride = (row_bytes + 63) / 64 * 64;
  return {room(n_rows * stride), stride};
}

View Scenario::output(int64_t n_rows, int64_t row_bytes) {
  const View view = scratch(n_rows, row_bytes);
  outputs_.push_back({view.base, n_rows * view.stride});
  return view;
}

Rows Scenario::rows(int n, int most, std::span<const int> positions) {
  rows_.clear();
  for (int i = 0; i < most; ++i) {
    Row row{};
    row.token = integer(0, 30);
    row.position = i < static_cast<int>(positions.size()) ? positions[static_cast<size_t>(i)] : integer(0, 40);
    row.slot = row.source_slot = i;
    row.n_keys = row.position + 1;
    row.n_source = integer(1, 40);
    row.beyond = integer(0, 1);
    rows_.push_back(row);
  }
  return {put(rows_), put(std::vector<int32_t>{n}), most};
}

Selection Scenario::selection(int n_rows) {
  std::vector<int32_t> counts;
  for (int i = 0; i < n_rows; ++i) counts.push_back(integer(0, 1));
  return {put(counts), 4};
}

Weights Scenario::weights(WeightFormat format, int64_t k, int64_t n) {
  const std::vector<float> matrix = floats(k * n, 0.05f);
  const cpu::FloatSource source{DType::kF32, matrix.data(), k, n, true};
  ThreadPool pool(1);
  cpu::WeightLayout packing = cpu::float_layout(cpu::WeightFormat::kF32, k, n);
  if (format == WeightFormat::kF16)
    packing = cpu::float_layout(integer(0, 1) == 0 ? cpu::WeightFormat::kF16 : cpu::WeightFormat::kBF16, k, n);
  cpu::Weights packed;
  std::vector<uint8_t> codes, points;
  std::vector<float> scales;
  const bool zero_points = format == WeightFormat::kQ8Zero || format == WeightFormat::kQ4Zero;
  if (zero_points) {  // MatMulNBits
    const int bits = format == WeightFormat::kQ4Zero ? 4 : 8, block = integer(0, 1) == 0 ? 32 : 128;
    const int64_t blocks = (k + block - 1) / block;
    for (int64_t i = 0; i < n * blocks * block * bits / 8; ++i) codes.push_back(static_cast<uint8_t>(integer(0, 255)));
    for (int64_t i = 0; i < n * ((blocks * bits + 7) / 8); ++i) points.push_back(static_cast<uint8_t>(integer(0, 255)));
    scales = floats(n * blocks, 0.01f);
    packed = cpu::pack(pool, cpu::nbits_source({k, n, bits, block, codes.data(), scales.data(), DType::kF32, points.data()}));
  } else {
    if (format == WeightFormat::kQ8) packing = cpu::block_layout({8, 32}, k, n);
    if (format == WeightFormat::kQ4) packing = cpu::block_layout({4, 32}, k, n);
    packed = cpu::pack(pool, source, packing);
  }
  const UnitLayout layout = unit_layout(format, k, n);
  std::vector<std::byte> units(static_cast<size_t>(layout.size_bytes));
  std::vector<float> column_scales(static_cast<size_t>(n));
  pack_units(packed.view, layout, {0, layout.n_tiles}, units.data(), column_scales);
  return {put(units), put(column_scales), format, static_cast<int32_t>(k), static_cast<int32_t>(n)};
}

std::vector<uint32_t> Scenario::run(const HowToRun& how) {
  if (how.recorded) {
    const std::unique_ptr<Recording> recording = device_.record(steps_);
    for (int i = 0; i < how.replays; ++i) device_.replay(*recording);
    device_.wait();
  } else {
    for (int i = 0; i < how.replays; ++i)
      for (const Step& step : steps_) device_.run(step);
  }
  std::vector<uint32_t> words;
  for (const Output& output : outputs_) {
    std::vector<uint32_t> part(static_cast<size_t>(output.n_bytes / 4));
    device_.read(std::as_writable_bytes(std::span(part)), output.address);
    words.insert(words.end(), part.begin(), part.end());
  }
  return words;
}

std::vector<uint32_t> run_on(Device& device, const ScenarioCase& scenario, const HowToRun& how) {
  Scenario built(device, static_cast<uint32_t>(std::hash<std::string>{}(scenario.name)));
  scenario.build(built);
  return built.run(how);
}

std::string difference(std::span<const uint32_t> a, std::span<const uint32_t> b) {
  if (a.size() != b.size()) return fmt::format("{} words and {}", a.size(), b.size());
  const auto is_nan = [](uint32_t word) { return (word & 0x7fffffffu) > 0x7f800000u; };
  size_t n = 0, first = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (is_nan(a[i]) && is_nan(b[i]))) continue;
    if (n++ == 0) first = i;
  }
  if (n == 0) return "";
  return fmt::format("{} of {} words differ, the first is number {}: {:08x} ({}) and {:08x} ({})", n, a.size(), first, a[first],
                     std::bit_cast<float>(a[first]), b[first], std::bit_cast<float>(b[first]));
}

}  // namespace kvik::testing_support

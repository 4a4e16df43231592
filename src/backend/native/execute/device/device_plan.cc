#include "backend/native/execute/device/device_plan.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace kvik::native {
namespace {

// A device may compute several operations at once: rotary of queries, rotary of keys, append and attention are the most. While some blocks
// write the result of the last one, others still read what the first one is given.
constexpr int kLinger = 3;

constexpr int64_t kMostElements = std::numeric_limits<int32_t>::max();

bool is_plain(const Plan& plan, const Input& input) {
  if (!input) return true;
  if (input.size > kMostElements) return false;
  if (input.is_value()) return plan.value(input.index).dtype == DType::kF32;
  if (input.is_constant()) return plan.constants[static_cast<size_t>(input.index)].dtype() == DType::kF32;
  return plan.tables[static_cast<size_t>(input.index)].dtype == DType::kF32;
}

DType dtype_of(const Plan& plan, const Input& input) {
  if (input.is_value()) return plan.value(input.index).dtype;
  if (input.is_constant()) return plan.constants[static_cast<size_t>(input.index)].dtype();
  return plan.tables[static_cast<size_t>(input.index)].dtype;
}

bool moves_plainly(const Plan& plan, const Op& op, const Move& move) {
  const int64_t size = element_bytes(plan.value(op.out.front()).dtype);
  const auto fits = [&](const Input& input) { return !input || element_bytes(dtype_of(plan, input)) == size; };
  const auto is_near = [](const Move::Run& run) { return std::max({run.from, run.to, run.count}) <= kMostElements; };
  return (size == 1 || size == 2 || size == 4 || size == 8) && std::ranges::all_of(op.in, fits) && std::ranges::all_of(move.runs, is_near);
}

// Data of several steps, in one piece.
class Pieces {
 public:
  template <class T>
  int64_t add(std::span<const T> items) {
    const size_t at = (bytes_.size() + 63) / 64 * 64;
    bytes_.resize(at + items.size_bytes());
    if (!items.empty()) std::memcpy(bytes_.data() + at, items.data(), items.size_bytes());
    return static_cast<int64_t>(at);
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

int planes_of(cpu::KvFormat kv) { return kv == cpu::KvFormat::kF32 ? 2 : 1; }

bool attends_plainly(const AttentionSpec& attend, cpu::KvFormat kv) {
  const int64_t most = device::kMostHeadDim / planes_of(kv);
  return attend.weight_roundings.empty() && attend.key_dim <= most && attend.value_dim <= most;
}

// Query heads by KV head.
struct HeadOrder {
  explicit HeadOrder(const AttentionSpec& attend) : first_heads(static_cast<size_t>(attend.n_kv_heads) + 1) {
    for (int64_t kv = 0; kv < attend.n_kv_heads; ++kv) {
      for (int64_t head = 0; head < attend.n_heads; ++head) {
        const int64_t own =
            attend.kv_head_of.empty() ? head / (attend.n_heads / attend.n_kv_heads) : attend.kv_head_of[static_cast<size_t>(head)];
        if (own == kv) heads.push_back(static_cast<int32_t>(head));
      }
      const auto end = static_cast<int32_t>(heads.size());
      most_heads = std::max(most_heads, end - first_heads[static_cast<size_t>(kv)]);
      first_heads[static_cast<size_t>(kv) + 1] = end;
    }
  }
  std::vector<int32_t> heads, first_heads;
  int32_t most_heads = 0;
};

// Addresses are offsets into the pieces until the pieces have been sent.
DeviceAttend device_attend(const AttentionSpec& attend, cpu::KvFormat kv, Pieces& pieces) {
  DeviceAttend made;
  made.on_device = attends_plainly(attend, kv);
  if (!made.on_device) {
    made.on_host = cpu_attention(attend, kv);
    made.page_bytes = made.on_host.layout.page_bytes;
    return made;
  }
  made.layout = device::kv_layout(planes_of(kv), attend.n_kv_heads, attend.key_dim, attend.value_dim);
  made.page_bytes = (made.layout.page_bytes + 63) / 64 * 64;
  const auto add = [&](const auto& items) {
    return items.empty() ? device::Address::kNone : static_cast<device::Address>(pieces.add(std::span(items)));
  };
  const HeadOrder order(attend);
  made.heads = add(order.heads);
  made.first_heads = add(order.first_heads);
  made.most_heads = order.most_heads;
  device::AttendRule& rule = made.rule;
  rule.scale = attend.scale;
  rule.soft_cap = attend.soft_cap;
  rule.roundings = add(attend.score_roundings);
  rule.n_roundings = static_cast<int32_t>(attend.score_roundings.size());
  rule.slopes = add(attend.slopes);
  rule.distance_bias = add(attend.distance_bias);
  rule.n_distances = static_cast<int32_t>(static_cast<int64_t>(attend.distance_bias.size()) / attend.n_heads);
  rule.first_distance = static_cast<int32_t>(attend.first_distance);
  rule.sinks = add(attend.sinks);
  rule.window = static_cast<int32_t>(std::min(attend.window, kMostElements));
  rule.causal = attend.causal;
  rule.from_source = attend.from_source;
  return made;
}

std::vector<device::MoveRun> device_runs(const Move& move) {
  std::vector<device::MoveRun> runs;
  for (const Move::Run& run : move.runs)
    runs.push_back({run.input, static_cast<int32_t>(run.from), static_cast<int32_t>(run.to), static_cast<int32_t>(run.count)});
  return runs;
}

}  // namespace

bool has_device_kernel(const Plan& plan, const Op& op, cpu::KvFormat kv) {
  if (op.as<ReferenceOp>() != nullptr) return false;
  if (const auto* append = op.as<AppendOp>()) return attends_plainly(plan.attends[static_cast<size_t>(append->attend)], kv);
  if (const auto* attend = op.as<AttendOp>()) return attends_plainly(plan.attends[static_cast<size_t>(attend->attend)], kv);
  if (op.as<ReadRegister>() != nullptr || op.as<WriteRegister>() != nullptr) return true;
  if (const auto* move = op.as<Move>()) return moves_plainly(plan, op, *move);
  if (op.as<Embed>() != nullptr) {
    const DType dtype = dtype_of(plan, op.in[0]);
    return dtype == DType::kI64 || dtype == DType::kI32;
  }
  if (const auto* matmul = op.as<Matmul>()) {
    const bool integers = std::ranges::any_of(
        matmul->weights, [&](int w) { return plan.weights[static_cast<size_t>(w)].activations == Activations::kBytes; });
    if (integers || (op.in.size() > 1 && op.in[1] && !op.in[1].is_constant())) return false;
  }
  const auto is_f32 = [&](ValueIndex v) {
    return v == kNoIndex || (plan.value(v).dtype == DType::kF32 && plan.value(v).size <= kMostElements);
  };
  return std::ranges::all_of(op.in, [&](const Input& input) { return is_plain(plan, input); }) && std::ranges::all_of(op.out, is_f32);
}

HalfRows half_rows(const DevicePlan& plan, const Op& op, int weight) {
  const device::Weights& weights = plan.weights.of_weight[static_cast<size_t>(weight)];
  HalfRows rows;
  rows.k = weights.k;
  rows.parts = static_cast<int32_t>(op.in[0].size / weights.k);
  rows.planes = weights.format == device::WeightFormat::kF32 ? 2 : 1;
  rows.padded_k = (weights.k + 63) / 64 * 64;  // whole units of every format
  return rows;
}

DevicePlan::DevicePlan(std::shared_ptr<const Plan> given, DeviceWeights loaded, cpu::KvFormat kv,
                       const std::shared_ptr<SharedDevice>& shared)
    : plan(std::move(given)), weights(std::move(loaded)), placement(place(*plan, kNoIndex, kLinger)) {
  Pieces pieces;
  pieces.add(std::span<const int32_t>(std::array<int32_t, 1>{}));  // so that no address below is none
  constant_at.assign(plan->constants.size(), -1);
  runs_at.assign(plan->ops.size(), -1);
  for (const AttentionSpec& attend : plan->attends) {
    attends.push_back(device_attend(attend, kv, pieces));
    int64_t& end = attend.from_source ? source_page_bytes : page_bytes;
    attends.back().page_offset = end;
    end += attends.back().page_bytes;
  }
  for (size_t i = 0; i < plan->ops.size(); ++i) {
    const Op& op = plan->ops[i];
    const auto* matmul = op.as<Matmul>();
    const auto* embed = op.as<Embed>();
    const bool has_weights = matmul != nullptr ? std::ranges::all_of(matmul->weights, [&](int w) { return weights.has(w); })
                                               : embed == nullptr || weights.has(embed->weight);
    on_device.push_back(has_weights && has_device_kernel(*plan, op, kv));
    if (!on_device.back()) continue;
    for (size_t g = 0; matmul != nullptr && g < matmul->weights.size(); ++g)
      half_bytes = std::max(half_bytes, half_rows(*this, op, matmul->weights[g]).row_bytes());
    if (const auto* move = op.as<Move>()) runs_at[i] = pieces.add(std::span<const device::MoveRun>(device_runs(*move)));
    for (const Input& input : op.in) {
      if (!input.is_constant() || constant_at[static_cast<size_t>(input.index)] >= 0) continue;
      constant_at[static_cast<size_t>(input.index)] = pieces.add(plan->constants[static_cast<size_t>(input.index)].bytes());
    }
  }
  constants = DeviceBuffer(shared, pieces.bytes().size(), "the constants of the plan");
  constants.write(0, pieces.bytes());
  for (DeviceAttend& attend : attends) {
    for (device::Address* at : {&attend.heads, &attend.first_heads, &attend.rule.roundings, &attend.rule.slopes, &attend.rule.distance_bias,
                                &attend.rule.sinks}) {
      if (*at != device::Address::kNone) *at = constants.address() + static_cast<int64_t>(*at);
    }
  }
}

device::Address DevicePlan::constant(const Input& input) const {
  const auto i = static_cast<size_t>(input.index);
  return constants.address() + constant_at[i] + input.offset * element_bytes(plan->constants[i].dtype());
}

}  // namespace kvik::native

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/attend.h"
#include "onnx/eval/ops/blocked_matrix.h"
#include "onnx/eval/ops/matmul_plan.h"
#include "onnx/eval/ops/named_activation.h"
#include "onnx/eval/ops/numbers.h"

// com.microsoft MoE and QMoE: every token goes through the few experts that its router chooses.
namespace kvik::onnx {
namespace {

// One projection of all experts.
struct Projection {
  int64_t out = 0, in = 0;
  std::function<void(int64_t expert, int64_t row, std::span<double>)> weights;
  std::vector<double> bias;  // [experts, out] or empty

  std::vector<double> apply(int64_t expert, std::span<const double> x) const {
    std::vector<double> row(static_cast<size_t>(in)), y(static_cast<size_t>(out));
    for (size_t o = 0; o < y.size(); ++o) {
      weights(expert, static_cast<int64_t>(o), row);
      double sum = bias.empty() ? 0.0 : bias[static_cast<size_t>(expert) * y.size() + o];
      for (size_t i = 0; i < row.size(); ++i) sum += x[i] * row[i];
      y[o] = sum;
    }
    return y;
  }
};

struct Experts {
  int64_t n = 0, hidden = 0, inter = 0;
  Projection first, second, gate;  // gate: the third projection; without rows if there is none
};

struct ExpertActivation {
  std::string_view name;
  double alpha, beta, limit;
  int64_t fusion;
};

ExpertActivation activation_of(const Node& node) {
  const ExpertActivation result = {node.string_or("activation_type", "relu"), node.float_or("activation_alpha", 1.0f),
                                   node.float_or("activation_beta", 0.0f),
                                   node.float_or("swiglu_limit", std::numeric_limits<float>::infinity()), node.int_or("swiglu_fusion", 0)};
  const std::string_view name = result.name;
  require(name == "relu" || name == "gelu" || name == "silu" || name == "identity" || name == "swiglu",
          "attribute 'activation_type' is '{}'", name);
  require(result.fusion >= 0 && result.fusion <= 2, "attribute 'swiglu_fusion' is {}; expected 0, 1 or 2", result.fusion);
  return result;
}

double plain_activation(std::string_view name, double x) {
  if (name == "relu") return std::max(x, 0.0);
  if (name == "gelu") return tanh_gelu(x);
  if (name == "silu") return x * sigmoid(x);
  return x;
}

double swiglu(const ExpertActivation& with, double gate, double linear) {
  gate = std::min(gate, with.limit);
  linear = std::clamp(linear, -with.limit, with.limit);
  return gate * sigmoid(with.alpha * gate) * (linear + with.beta);
}

std::vector<double> expert_output(const Experts& experts, const ExpertActivation& with, int64_t expert, std::span<const double> x) {
  const std::vector<double> first = experts.first.apply(expert, x);
  const std::vector<double> third = experts.gate.out > 0 ? experts.gate.apply(expert, x) : std::vector<double>();
  std::vector<double> hidden(static_cast<size_t>(experts.inter));
  for (size_t i = 0; i < hidden.size(); ++i) {
    if (with.name != "swiglu") {
      hidden[i] = plain_activation(with.name, first[i]) * (third.empty() ? 1.0 : third[i]);
    } else if (!third.empty()) {
      hidden[i] = swiglu(with, first[i], third[i]);
    } else {
      const bool concatenated = with.fusion == 2;
      hidden[i] = swiglu(with, first[concatenated ? i : 2 * i], first[concatenated ? hidden.size() + i : 2 * i + 1]);
    }
  }
  return experts.second.apply(expert, hidden);
}

struct Route {
  int64_t expert;
  double weight;
};

// The k most probable experts of a token. `given`, if not empty, replaces the probabilities as weights.
std::vector<Route> routes(std::span<const double> logits, std::span<const double> given, int64_t k, bool normalize) {
  std::vector<double> probabilities(logits.begin(), logits.end());
  softmax(probabilities);
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)]; });
  std::vector<Route> result;
  double sum = 0;
  for (int64_t i = 0; i < k; ++i) {
    const int64_t expert = order[static_cast<size_t>(i)];
    result.push_back({expert, given.empty() ? probabilities[static_cast<size_t>(expert)] : given[static_cast<size_t>(expert)]});
    sum += result.back().weight;
  }
  for (Route& route : result) route.weight *= normalize ? (sum == 0 ? 0.0 : 1.0 / sum) : 1.0;
  return result;
}

std::vector<Tensor> run(const KernelCall& call, const Experts& experts, const Tensor& router_weights) {
  const Node& node = call.node;
  const Tensor &input = call.input(0), &router = call.input(1);
  require(node.int_or("use_sparse_mixer", 0) == 0, "attribute 'use_sparse_mixer' is set, which is not supported");
  const int64_t k = node.int_or("k", 1);
  require(k >= 1 && k <= experts.n, "attribute 'k' is {}, there are {} experts", k, experts.n);
  const std::vector<double> x = doubles_of(input), logits = doubles_of(router);
  const auto hidden = static_cast<size_t>(experts.hidden), n = static_cast<size_t>(experts.n);
  const size_t tokens = x.size() / hidden;
  require_dims(router, {static_cast<int64_t>(tokens), experts.n}, "router_probs");
  call.work.take({input.size(), k, experts.first.out + experts.second.in + experts.gate.out});
  std::vector<double> given;
  if (router_weights.defined()) {
    require(router_weights.dims() == router.dims(), "router_weights has shape {}; expected {}", to_string(router_weights.dims()),
            to_string(router.dims()));
    given = doubles_of(router_weights);
  }
  const ExpertActivation with = activation_of(node);
  std::vector<double> y(x.size());
  for (size_t token = 0; token < tokens; ++token) {
    const std::span<const double> weights =
        given.empty() ? std::span<const double>() : std::span<const double>(given).subspan(token * n, n);
    for (const Route& route :
         routes(std::span(logits).subspan(token * n, n), weights, k, node.int_or("normalize_routing_weights", 0) != 0)) {
      const std::vector<double> out = expert_output(experts, with, route.expert, std::span(x).subspan(token * hidden, hidden));
      for (size_t d = 0; d < hidden; ++d) y[token * hidden + d] += route.weight * out[d];
    }
  }
  return {tensor_of(input.dtype(), input.dims(), y)};
}

// Sizes from the input, the second projection [experts, hidden, inter / pack] and the activation.
Experts sizes_of(const KernelCall& call, const Tensor& second, int64_t pack, bool has_gate) {
  const Tensor &input = call.input(0), &router = call.input(1);
  require_float(input, "the input");
  require(input.rank() == 2 || input.rank() == 3, "the input has shape {}; expected two or three dimensions", to_string(input.dims()));
  require_rank(router, 2, "router_probs");
  require_rank(second, 3, "fc2_experts_weights");
  Experts experts;
  experts.n = router.dim(1);
  experts.hidden = input.dim(-1);
  require(experts.hidden > 0 && experts.n > 0 && second.dim(0) == experts.n, "{} experts of width {} were found", second.dim(0),
          experts.hidden);
  const int64_t per_expert = second.size() / experts.n;
  require(per_expert * pack % experts.hidden == 0 && per_expert > 0, "fc2_experts_weights has shape {}; expected a width of {}",
          to_string(second.dims()), experts.hidden);
  experts.inter = per_expert * pack / experts.hidden;
  const ExpertActivation with = activation_of(call.node);
  const bool fused = with.name == "swiglu" && !has_gate;
  require(with.name != "swiglu" || with.fusion == 0 || !has_gate, "a fused swiglu and a third projection were both found");
  experts.first.out = fused ? 2 * experts.inter : experts.inter;
  experts.first.in = experts.hidden;
  experts.second.out = experts.hidden;
  experts.second.in = experts.inter;
  if (has_gate) experts.gate.out = experts.inter;
  experts.gate.in = experts.hidden;
  return experts;
}

void set_bias(Projection& projection, const Tensor& bias, int64_t experts, std::string_view name) {
  if (!bias.defined()) return;
  require_dims(bias, {experts, projection.out}, name);
  projection.bias = doubles_of(bias);
}

// Rows of `in` elements, expert after expert; older files declare the last two axes in reverse order for the same bytes.
void set_float_weights(Projection& projection, const Tensor& weights, int64_t experts, std::string_view name) {
  require_rank(weights, 3, name);
  const bool fits = weights.dim(0) == experts && ((weights.dim(1) == projection.out && weights.dim(2) == projection.in) ||
                                                  (weights.dim(1) == projection.in && weights.dim(2) == projection.out));
  require(fits, "{} has shape {}; expected [{}, {}, {}]", name, to_string(weights.dims()), experts, projection.out, projection.in);
  projection.weights = [values = doubles_of(weights), out = projection.out](int64_t expert, int64_t row, std::span<double> to) {
    const auto from = static_cast<size_t>(expert * out + row) * to.size();
    std::ranges::copy(std::span(values).subspan(from, to.size()), to.begin());
  };
}

std::vector<Tensor> moe(const KernelCall& call) {
  Experts experts = sizes_of(call, call.input(4), 1, call.has(6));
  set_float_weights(experts.first, call.input(2), experts.n, "fc1_experts_weights");
  set_float_weights(experts.second, call.input(4), experts.n, "fc2_experts_weights");
  set_bias(experts.first, call.optional(3), experts.n, "fc1_experts_bias");
  set_bias(experts.second, call.optional(5), experts.n, "fc2_experts_bias");
  if (experts.gate.out > 0) {
    set_float_weights(experts.gate, call.input(6), experts.n, "fc3_experts_weights");
    set_bias(experts.gate, call.optional(7), experts.n, "fc3_experts_bias");
  }
  return run(call, experts, Tensor());
}

struct QuantizedInputs {
  Tensor weights, scales, zero_points, global_scale;
  std::string_view name;
};

// Integer codes: a scale per row, or per block of a row.
void set_integer_weights(Projection& projection, const QuantizedInputs& in, int64_t experts, const Node& node) {
  const int64_t bits = node.int_or("expert_weight_bits", 4), pack = 8 / bits;
  require(in.weights.size() == element_count(Dims{experts, projection.out, projection.in / pack}) && projection.in % pack == 0,
          "{} has shape {}; expected [{}, {}, {}]", in.name, to_string(in.weights.dims()), experts, projection.out, projection.in / pack);
  require(in.scales.defined(), "{} has no scales", in.name);
  const int64_t asked = node.int_or("block_size", 0);
  require(asked >= 0, "attribute 'block_size' is {}; expected a size", asked);
  const bool blocked = asked > 0 && in.scales.rank() == 3 && in.scales.dim(2) > 1;
  BlockedMatrix w;
  w.rows = experts * projection.out;
  w.columns = projection.in;
  w.block = blocked ? asked : projection.in;
  w.bits = static_cast<size_t>(bits);
  w.row_bytes = static_cast<size_t>(projection.in / pack);
  w.codes = in.weights.data<uint8_t>();
  const int64_t blocks = w.blocks();
  require(in.scales.size() == w.rows * blocks, "the scales of {} have shape {}; expected {} for each of {} rows", in.name,
          to_string(in.scales.dims()), blocks, w.rows);
  w.scales = doubles_of(in.scales);
  w.zero_points.assign(w.scales.size(), static_cast<double>(1 << (bits - 1)));
  if (in.zero_points.defined()) {
    // Packed along the blocks of a row; without blocks, along the rows of an expert.
    const int64_t lines = blocked ? w.rows : experts, per_line = blocked ? blocks : projection.out;
    require(in.zero_points.size() == lines * blocks_of(per_line, pack), "the zero points of {} have shape {}", in.name,
            to_string(in.zero_points.dims()));
    w.zero_points = unpacked_zero_points(in.zero_points.data<uint8_t>(), lines, per_line, w.bits);
  }
  projection.weights = [w = std::move(w), keep = in.weights, out = projection.out](int64_t expert, int64_t row, std::span<double> to) {
    w.row(expert * out + row, to);
  };
}

// Small floats times a scale per expert and, for 4 bits, one per block.
void set_small_float_weights(Projection& projection, const QuantizedInputs& in, int64_t experts, std::string_view type) {
  require_dims(in.global_scale, {experts}, "the global scale");
  const std::vector<double> global = doubles_of(in.global_scale);
  const int64_t size = element_count(Dims{experts, projection.out, projection.in});
  if (type == "fp8") {
    require(in.weights.dtype() == DType::kF8E4M3FN && in.weights.size() == size, "{} is of {} and shape {}; expected f8e4m3fn", in.name,
            dtype_name(in.weights.dtype()), to_string(in.weights.dims()));
    projection.weights = [values = doubles_of(in.weights), global, out = projection.out](int64_t expert, int64_t row,
                                                                                         std::span<double> to) {
      const auto from = static_cast<size_t>(expert * out + row) * to.size();
      for (size_t i = 0; i < to.size(); ++i) to[i] = values[from + i] * global[static_cast<size_t>(expert)];
    };
    return;
  }
  const int64_t block = type == "fp4" ? 32 : 16;
  require(in.weights.size() * 2 == size && projection.in % block == 0, "{} has shape {}; expected {} codes in blocks of {}", in.name,
          to_string(in.weights.dims()), size, block);
  require(in.scales.defined() && in.scales.size() == size / block, "{} must have {} scales", in.name, size / block);
  projection.weights = [codes = in.weights, scales = doubles_of(in.scales), global, out = projection.out, block](
                           int64_t expert, int64_t row, std::span<double> to) {
    const auto from = static_cast<size_t>(expert * out + row) * to.size();
    const std::span<const uint8_t> bytes = codes.data<uint8_t>();
    for (size_t i = 0; i < to.size(); ++i) {
      const double code = decode_f4e2m1(static_cast<uint8_t>(packed_bits(bytes, 4, from + i)));
      to[i] = code * scales[(from + i) / static_cast<size_t>(block)] * global[static_cast<size_t>(expert)];
    }
  };
}

std::vector<Tensor> quantized_moe(const KernelCall& call) {
  const Node& node = call.node;
  const std::string_view type = node.string_or("quant_type", "int");
  require(type == "int" || type == "fp4" || type == "nvfp4" || type == "fp8",
          "attribute 'quant_type' is '{}'; expected one of int, fp4, nvfp4, fp8", type);
  require(node.int_or("weights_prepacked", -1) <= 0, "the weights are packed for another device; expected the plain layout");
  const int64_t bits = type == "int" ? node.int_or("expert_weight_bits", 4) : type == "fp8" ? 8 : 4;
  require(bits == 2 || bits == 4 || bits == 8, "attribute 'expert_weight_bits' is {}; expected 2, 4 or 8", bits);
  Experts experts = sizes_of(call, call.input(5), 8 / bits, call.has(8));
  const auto set = [&](Projection& projection, const QuantizedInputs& in) {
    if (type == "int") {
      set_integer_weights(projection, in, experts.n, node);
    } else {
      require(in.global_scale.defined(), "{} has no global scale", in.name);
      set_small_float_weights(projection, in, experts.n, type);
    }
  };
  set(experts.first, {call.input(2), call.optional(3), call.optional(11), call.optional(15), "fc1_experts_weights"});
  set(experts.second, {call.input(5), call.optional(6), call.optional(12), call.optional(16), "fc2_experts_weights"});
  set_bias(experts.first, call.optional(4), experts.n, "fc1_experts_bias");
  set_bias(experts.second, call.optional(7), experts.n, "fc2_experts_bias");
  if (experts.gate.out > 0) {
    set(experts.gate, {call.input(8), call.optional(9), call.optional(13), Tensor(), "fc3_experts_weights"});
    set_bias(experts.gate, call.optional(10), experts.n, "fc3_experts_bias");
  }
  return run(call, experts, call.optional(14));
}

}  // namespace

void add_moe(KernelTable& table) {
  table.add(kMicrosoft, "MoE", moe);
  table.add(kMicrosoft, "QMoE", quantized_moe);
}

}  // namespace kvik::onnx

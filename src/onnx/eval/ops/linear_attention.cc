#include <algorithm>
#include <cmath>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/attend.h"
#include "onnx/eval/ops/numbers.h"

// Linear attention as a recurrence: every token decays and updates a state per head.
namespace kvik::onnx {
namespace {

struct Rule {
  bool decays = false, corrects = false;
};

Rule rule_of(const Node& node) {
  const std::string_view name = node.string_or("update_rule", "gated_delta");
  if (name == "linear") return {false, false};
  if (name == "gated") return {true, false};
  if (name == "delta") return {false, true};
  require(name == "gated_delta", "attribute 'update_rule' is '{}'; expected one of linear, gated, delta, gated_delta", name);
  return {true, true};
}

// A gate per token: [batch, length, heads * width], or [batch, length, 1] shared by all heads.
class Gate {
 public:
  Gate(const Tensor& tensor, const Heads& v, std::string_view name) : heads_(v.heads), length_(v.length) {
    require_dims(tensor, {v.batch, v.length, -1}, name);
    last_ = tensor.dim(2);
    require(last_ == 1 || (last_ > 0 && last_ % v.heads == 0), "{} has shape {}; expected a multiple of {} heads", name,
            to_string(tensor.dims()), v.heads);
    values_ = doubles_of(tensor);
  }
  int64_t width() const { return last_ <= heads_ ? 1 : last_ / heads_; }
  double at(int64_t b, int64_t h, int64_t i, int64_t d) const {
    const int64_t within = last_ == 1 ? 0 : h * width() + (width() == 1 ? 0 : d);
    return values_[static_cast<size_t>((b * length_ + i) * last_ + within)];
  }

 private:
  int64_t heads_, length_, last_ = 0;
  std::vector<double> values_;
};

struct LinearRecurrence {
  Heads q, k, v;
  Rule rule;
  double scale = 1;
  std::vector<Gate> decay, beta;  // one each, or none
  int64_t window = 0;             // number of last states returned; 0: only the last, without an axis
};

// One token of one head: S <- exp(g) S; v' = beta (v - S^T k) for the delta rules; S <- S + k (x) v'.
void step(const LinearRecurrence& r, std::span<double> state, int64_t b, int64_t h, int64_t i) {
  const std::span<const double> k = r.k.row(b, h / (r.v.heads / r.k.heads), i);
  const std::span<const double> v = r.v.row(b, h, i);
  std::vector<double> write(v.begin(), v.end());
  if (r.rule.decays) {
    for (size_t d = 0; d < k.size(); ++d) {
      const double factor = std::exp(r.decay[0].at(b, h, i, static_cast<int64_t>(d)));
      for (size_t m = 0; m < v.size(); ++m) state[d * v.size() + m] *= factor;
    }
  }
  if (r.rule.corrects) {
    for (size_t m = 0; m < v.size(); ++m) {
      double recalled = 0;
      for (size_t d = 0; d < k.size(); ++d) recalled += state[d * v.size() + m] * k[d];
      write[m] = r.beta[0].at(b, h, i, 0) * (v[m] - recalled);
    }
  }
  for (size_t d = 0; d < k.size(); ++d) {
    for (size_t m = 0; m < v.size(); ++m) state[d * v.size() + m] += k[d] * write[m];
  }
}

void read(const LinearRecurrence& r, std::span<const double> state, std::span<const double> q, std::span<double> out) {
  for (size_t m = 0; m < out.size(); ++m) {
    double sum = 0;
    for (size_t d = 0; d < q.size(); ++d) sum += q[d] * state[d * out.size() + m];
    out[m] = sum * r.scale;
  }
}

LinearRecurrence operands(const KernelCall& call) {
  const Node& node = call.node;
  LinearRecurrence r;
  for (size_t i = 0; i < 3; ++i) require_float(call.input(i), "an operand");
  r.q = heads_of_3d(call.input(0), positive_attribute(node, "q_num_heads"), "the query");
  r.v = heads_of_3d(call.input(2), positive_attribute(node, "kv_num_heads"), "the value");
  require_rank(call.input(1), 3, "the key");
  // com.microsoft: the key may have fewer heads than the value; its head size is the query's.
  const int64_t key_width = call.input(1).dim(2);
  require(r.q.size > 0 && key_width > 0 && key_width % r.q.size == 0, "the key has shape {}; expected heads of {} elements",
          to_string(call.input(1).dims()), r.q.size);
  r.k = heads_of_3d(call.input(1), key_width / r.q.size, "the key");
  const bool together = r.q.batch == r.k.batch && r.q.batch == r.v.batch && r.q.length == r.k.length && r.q.length == r.v.length;
  require(together, "the query, key and value differ in batch or length");
  require(r.v.heads % r.k.heads == 0 && (r.q.heads % r.v.heads == 0 || r.v.heads % r.q.heads == 0),
          "{} query, {} key and {} value heads do not divide one another", r.q.heads, r.k.heads, r.v.heads);
  r.rule = rule_of(node);
  const double scale = node.float_or("scale", 0.0f);
  r.scale = scale == 0 ? 1.0 / std::sqrt(static_cast<double>(r.q.size)) : scale;
  if (r.rule.decays) {
    r.decay.emplace_back(call.input(4), r.v, "decay");
    const int64_t width = r.decay[0].width();
    require(width == 1 || width == r.k.size, "decay has {} numbers per head, 1 or {} were expected", width, r.k.size);
  }
  if (r.rule.corrects) {
    r.beta.emplace_back(call.input(5), r.v, "beta");
    require(r.beta[0].width() == 1, "beta has {} numbers per head, 1 was expected", r.beta[0].width());
  }
  r.window = node.int_or("state_window", 0);
  require(r.window >= 0 && r.window <= 8, "attribute 'state_window' is {}; expected 0 to 8", r.window);
  return r;
}

std::vector<Tensor> linear_attention(const KernelCall& call) {
  const LinearRecurrence r = operands(call);
  Dims state_dims = {r.v.batch, r.v.heads, r.k.size, r.v.size};
  const auto n_state = static_cast<size_t>(element_count(state_dims));
  if (r.window > 0) state_dims.insert(state_dims.begin(), r.window);
  call.work.take(state_dims, {std::max<int64_t>(1, r.q.length)});
  call.work.take({r.q.batch, r.q.heads, r.q.length, r.k.size, r.v.size});
  std::vector<double> states(static_cast<size_t>(element_count(state_dims)));
  std::vector<double> state(n_state);
  if (call.has(3)) {
    require(call.input(3).dims() == state_dims, "past_state has shape {}; expected {}", to_string(call.input(3).dims()),
            to_string(state_dims));
    const std::vector<double> past = doubles_of(call.input(3));
    state.assign(past.end() - static_cast<std::ptrdiff_t>(n_state), past.end());  // the last slot of a window
  }
  Heads y(r.q.batch, std::max(r.q.heads, r.v.heads), r.q.length, r.v.size);
  const auto per_head = static_cast<size_t>(r.k.size * r.v.size);
  const int64_t tokens = y.data.empty() ? 0 : r.q.length;
  for (int64_t i = 0; i < tokens; ++i) {
    for (int64_t b = 0; b < r.v.batch; ++b) {
      const auto head_state = [&](int64_t h) {
        return std::span(state).subspan(static_cast<size_t>(b * r.v.heads + h) * per_head, per_head);
      };
      for (int64_t h = 0; h < r.v.heads; ++h) step(r, head_state(h), b, h, i);
      for (int64_t h = 0; h < y.heads; ++h)
        read(r, head_state(h / (y.heads / r.v.heads)), r.q.row(b, h / (y.heads / r.q.heads), i), y.row(b, h, i));
    }
    const int64_t slot = i - (r.q.length - r.window);
    if (r.window > 0 && slot >= 0) std::ranges::copy(state, states.begin() + slot * static_cast<int64_t>(n_state));
  }
  if (r.window == 0 || tokens == 0) std::ranges::copy(state, states.end() - static_cast<std::ptrdiff_t>(n_state));
  const DType state_dtype = call.has(3) ? call.input(3).dtype() : call.input(0).dtype();
  return {tensor_3d(call.input(0).dtype(), y), tensor_of(state_dtype, state_dims, states)};
}

// A causal depthwise convolution; the state is the last k - 1 inputs.
std::vector<Tensor> causal_conv_with_state(const KernelCall& call) {
  const Tensor &x = call.input(0), &weight = call.input(1);
  require_float(x, "the input");
  require(call.node.int_or("ndim", 1) == 1, "attribute 'ndim' is {}, only 1 is supported", call.node.int_or("ndim", 1));
  require_rank(x, 3, "the input");
  const int64_t batch = x.dim(0), channels = x.dim(1), length = x.dim(2);
  require_dims(weight, {channels, 1, -1}, "the weight");
  const int64_t taps = weight.dim(2), carried = taps - 1;
  require(taps > 0, "the weight has shape {}; expected at least one tap", to_string(weight.dims()));
  const int64_t window = call.node.int_or("state_window", 0);
  require(window >= 0 && window <= 8, "attribute 'state_window' is {}; expected 0 to 8", window);
  const std::string_view activation = call.node.string_or("activation", "none");
  require(activation == "none" || activation == "silu" || activation == "swish",
          "attribute 'activation' is '{}'; expected one of none, silu, swish", activation);
  Dims state_dims = {batch, channels, carried};
  if (window > 0) state_dims.insert(state_dims.begin(), window);
  call.work.take(state_dims);
  call.work.take({x.size(), taps});
  const std::vector<double> values = doubles_of(x), kernel = doubles_of(weight);
  std::vector<double> past, bias(static_cast<size_t>(channels));
  if (call.has(2)) {
    require_dims(call.input(2), {channels}, "the bias");
    bias = doubles_of(call.input(2));
  }
  if (call.has(3)) {
    require(call.input(3).dims() == state_dims, "past_state has shape {}; expected {}", to_string(call.input(3).dims()),
            to_string(state_dims));
    past = doubles_of(call.input(3));
  }
  std::vector<double> y(values.size()), states(static_cast<size_t>(element_count(state_dims)));
  const int64_t slots = std::max<int64_t>(window, 1);
  const int64_t lines = batch * channels;
  for (int64_t line = 0; line < lines; ++line) {
    std::vector<double> padded(static_cast<size_t>(carried));
    if (!past.empty()) std::copy_n(past.begin() + ((slots - 1) * lines + line) * carried, carried, padded.begin());
    padded.insert(padded.end(), values.begin() + line * length, values.begin() + (line + 1) * length);
    const int64_t channel = line % channels;
    for (int64_t i = 0; i < length; ++i) {
      double sum = bias[static_cast<size_t>(channel)];
      for (int64_t t = 0; t < taps; ++t) sum += padded[static_cast<size_t>(i + t)] * kernel[static_cast<size_t>(channel * taps + t)];
      y[static_cast<size_t>(line * length + i)] = activation == "none" ? sum : sum / (1.0 + std::exp(-sum));
    }
    for (int64_t slot = 0; slot < slots; ++slot) {
      const int64_t after = length - slots + slot + 1;  // inputs up to the state of this slot
      if (after < 1 && slot + 1 < slots) continue;
      std::copy_n(padded.begin() + after, carried, states.begin() + (slot * lines + line) * carried);
    }
  }
  const DType state_dtype = call.has(3) ? call.input(3).dtype() : x.dtype();
  return {tensor_of(x.dtype(), x.dims(), y), tensor_of(state_dtype, state_dims, states)};
}

}  // namespace

void add_linear_attention(KernelTable& table) {
  for (const std::string_view domain : {std::string_view(), kMicrosoft}) {
    table.add(domain, "LinearAttention", linear_attention);
    table.add(domain, "CausalConvWithState", causal_conv_with_state);
  }
}

}  // namespace kvik::onnx

#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/attention_operators.h"
#include "onnx/eval/groups.h"
#include "onnx/eval/ops/attend.h"
#include "onnx/eval/ops/numbers.h"

// The standard Attention operator (opset 23 and later) and the preview FlexAttention.
namespace kvik::onnx {
namespace {

constexpr AttentionOperator kStandard = *attention_operator("", "Attention");
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

Heads operand(const KernelCall& call, int input, std::string_view heads_attribute, std::string_view name) {
  const Tensor& tensor = call.input(input);
  require_float(tensor, name);
  if (tensor.rank() == 4) return heads_of_4d(tensor, name);
  return heads_of_3d(tensor, positive_attribute(call.node, heads_attribute), name);
}

// attn_mask: bool (true: attend) or additive; broadcasts to [batch, heads, queries, keys]. Keys past its end are masked; opset 23
// broadcasts a single column instead.
class Mask {
 public:
  Mask(const Tensor& tensor, const Heads& q, int64_t n_keys, int opset) {
    if (!tensor.defined()) return;
    one_column_ = opset < 24 && tensor.rank() > 0 && tensor.dim(-1) == 1;
    const Dims wanted = {q.batch, q.heads, q.length, n_keys};
    dims_ = tensor.dims();
    bool fits = !dims_.empty() && dims_.size() <= 4;
    if (fits) dims_.insert(dims_.begin(), 4 - dims_.size(), 1);
    for (size_t axis = 0; fits && axis < 3; ++axis) fits = dims_[axis] == 1 || dims_[axis] == wanted[axis];
    require(fits && dims_[3] <= n_keys, "attn_mask has shape {}; expected one that broadcasts to {}", to_string(tensor.dims()),
            to_string(wanted));
    values_ = doubles_of(tensor);
    if (tensor.dtype() != DType::kBool) return;
    for (double& value : values_) value = value != 0 ? 0.0 : kMinusInfinity;
  }

  void add_to(int64_t b, int64_t h, int64_t i, std::span<double> scores) const {
    if (dims_.empty()) return;
    const auto at = [&](size_t axis, int64_t index) { return dims_[axis] == 1 ? 0 : index; };
    const auto width = static_cast<size_t>(dims_[3]);
    const auto from = static_cast<size_t>((at(0, b) * dims_[1] + at(1, h)) * dims_[2] + at(2, i)) * width;
    for (size_t j = 0; j < scores.size(); ++j) {
      if (one_column_) {
        scores[j] += values_[from];
      } else if (j < width) {
        scores[j] += values_[from + j];
      } else {
        scores[j] = kMinusInfinity;
      }
    }
  }

 private:
  bool one_column_ = false;
  Dims dims_;
  std::vector<double> values_;
};

// Which keys a query may attend to, by position.
struct Visibility {
  bool causal = false;
  int64_t left = -1, right = -1;     // window; -1: unbounded
  std::vector<int64_t> first_query;  // per batch: the position of query 0 among the keys
  std::vector<int64_t> valid_keys;   // per batch; empty: all

  bool sees(int64_t b, int64_t i, int64_t j) const {
    const int64_t position = first_query[static_cast<size_t>(b)] + i;
    if (!valid_keys.empty() && j >= valid_keys[static_cast<size_t>(b)]) return false;
    if (causal && j > position) return false;
    if (left >= 0 && j < position - left) return false;
    return right < 0 || j <= position + right;
  }
};

Visibility visibility(const KernelCall& call, const Heads& q, const Heads& k, int64_t past_length) {
  Visibility result;
  result.causal = call.node.int_or("is_causal", 0) != 0;
  result.left = call.node.int_or("left_window_size", -1);
  result.right = call.node.int_or("right_window_size", -1);
  constexpr int64_t kFarthest = std::numeric_limits<int32_t>::max();
  require(result.left >= -1 && result.right >= -1 && result.left <= kFarthest && result.right <= kFarthest,
          "found a window of {} keys before and {} after; expected -1 or more", result.left, result.right);
  result.first_query.assign(static_cast<size_t>(q.batch), past_length);
  if (!call.has(kStandard.valid_keys)) return result;
  require_dims(call.input(kStandard.valid_keys), {q.batch}, "nonpad_kv_seqlen");
  require(!call.has(kStandard.past_key), "nonpad_kv_seqlen and past_key were both given; expected one of them");
  result.valid_keys = integers_of(call.input(kStandard.valid_keys));
  for (size_t b = 0; b < result.valid_keys.size(); ++b) {
    require(result.valid_keys[b] >= 0 && result.valid_keys[b] <= k.length, "nonpad_kv_seqlen[{}] is {}, there are {} keys", b,
            result.valid_keys[b], k.length);
    result.first_query[b] = result.valid_keys[b] - q.length;
  }
  return result;
}

double scale_of(const KernelCall& call, const Heads& q) {
  if (!call.node.has("scale")) return 1.0 / std::sqrt(static_cast<double>(q.size));
  return call.node.float_or("scale", 1.0f);
}

// Collects the scores at the stage that qk_matmul_output_mode selects.
struct KeptScores {
  Heads scores;  // [batch, heads, queries, keys]
  AttendOptions::Stage stage;

  static AttendOptions::Stage stage_of(int64_t mode) {
    switch (mode) {
      case 0: return AttendOptions::Stage::kScaled;
      case 1: return AttendOptions::Stage::kCapped;
      case 2: return AttendOptions::Stage::kMasked;
      case 3: return AttendOptions::Stage::kProbabilities;
      default: refuse("qk_matmul_output_mode is {}; expected 0 to 3", mode);
    }
  }
};

std::vector<Tensor> attention(const KernelCall& call) {
  const Heads q = operand(call, kStandard.query, kStandard.query_heads, "Q");
  Heads k = operand(call, kStandard.key, kStandard.kv_heads, "K");
  Heads v = operand(call, kStandard.value, kStandard.kv_heads, "V");
  require(call.has(kStandard.past_key) == call.has(kStandard.past_value),
          "one of past_key and past_value was given; expected both or none");
  int64_t past_length = 0;
  if (call.has(kStandard.past_key)) {
    const Heads past_key = heads_of_4d(call.input(kStandard.past_key), "past_key");
    const Heads past_value = heads_of_4d(call.input(kStandard.past_value), "past_value");
    past_length = past_key.length;
    k = joined(past_key, k, "past_key and K");
    v = joined(past_value, v, "past_value and V");
  }
  const Mask mask(call.optional(kStandard.score_mask), q, k.length, call.node.opset);
  const Visibility visible = visibility(call, q, k, past_length);

  AttendOptions options;
  options.work = call.work;
  options.scale = scale_of(call, q);
  options.softcap = call.node.float_or("softcap", 0.0f);
  options.mask = [&](int64_t b, int64_t h, int64_t i, std::span<double> scores) {
    mask.add_to(b, h, i, scores);
    for (size_t j = 0; j < scores.size(); ++j) {
      if (!visible.sees(b, i, static_cast<int64_t>(j))) scores[j] = kMinusInfinity;
    }
  };
  KeptScores kept{{}, KeptScores::stage_of(call.node.int_or("qk_matmul_output_mode", 0))};
  if (call.wants(3)) {
    call.work.take({q.batch, q.heads, q.length, k.length});
    kept.scores = Heads(q.batch, q.heads, q.length, k.length);
    options.watch = [&](AttendOptions::Stage stage, int64_t b, int64_t h, int64_t i, std::span<double> scores) {
      if (stage == kept.stage) std::ranges::copy(scores, kept.scores.row(b, h, i).begin());
    };
  }
  const Heads y = attend(q, k, v, options);

  const DType dtype = call.input(kStandard.query).dtype();
  std::vector<Tensor> outputs = {call.input(kStandard.query).rank() == 4 ? tensor_4d(dtype, y) : tensor_3d(dtype, y),
                                 tensor_4d(call.input(kStandard.key).dtype(), k), tensor_4d(call.input(kStandard.value).dtype(), v)};
  if (call.wants(3)) outputs.push_back(tensor_4d(dtype, kept.scores));
  return outputs;
}

// Runs a subgraph that maps scores or probabilities to others of the same shape, if there is one.
void modify(const KernelCall& call, std::string_view attribute, DType dtype, Heads& scores) {
  if (!call.node.has(attribute)) return;
  const Tensor before = tensor_4d(dtype, scores);
  const std::vector<Tensor> after = call.run_subgraph(call.node.graph(attribute), std::span(&before, 1));
  require(after.size() == 1 && after[0].dims() == before.dims(), "'{}' must return one tensor of shape {}", attribute,
          to_string(before.dims()));
  scores.data = doubles_of(after[0]);
}

// The preview FlexAttention: subgraphs change the scores and the probabilities.
std::vector<Tensor> flex_attention(const KernelCall& call) {
  const Heads q = heads_of_4d(call.input(0), "Q"), k = heads_of_4d(call.input(1), "K"), v = heads_of_4d(call.input(2), "V");
  const DType dtype = call.input(0).dtype(), asked = dtype_attribute(call.node, "softmax_precision");
  const DType precision = asked != DType::kUndefined ? asked : dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  call.work.take({q.batch, q.heads, q.length, k.length});
  Heads scores(q.batch, q.heads, q.length, k.length);
  AttendOptions options;
  options.work = call.work;
  options.scale = scale_of(call, q);
  options.watch = [&](AttendOptions::Stage stage, int64_t b, int64_t h, int64_t i, std::span<double> row) {
    if (stage == AttendOptions::Stage::kScaled) std::ranges::copy(row, scores.row(b, h, i).begin());
  };
  Heads y = attend(q, k, v, options);
  modify(call, "score_mod", precision, scores);
  for_rows(scores, [&](int64_t b, int64_t h, int64_t i) { softmax(scores.row(b, h, i)); });
  modify(call, "prob_mod", precision, scores);
  for_rows(y, [&](int64_t b, int64_t h, int64_t i) {
    const std::span<double> out = y.row(b, h, i);
    std::ranges::fill(out, 0.0);
    for (int64_t j = 0; j < k.length; ++j) {
      const double share = scores.row(b, h, i)[static_cast<size_t>(j)];
      const std::span<const double> value = v.row(b, h / (q.heads / k.heads), j);
      for (size_t d = 0; d < out.size(); ++d) out[d] += share * value[d];
    }
  });
  return {tensor_4d(dtype, y)};
}

}  // namespace

void add_attention(KernelTable& table) {
  table.add("Attention", attention);
  table.add("ai.onnx.preview", "FlexAttention", flex_attention);
}

}  // namespace kvik::onnx

#include <cmath>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/broadcast.h"
#include "onnx/eval/ops/cast.h"
#include "onnx/eval/ops/common.h"
#include "onnx/eval/ops/elements.h"

// What training leaves in graphs: dropout and losses.
namespace kvik::onnx {
namespace {

// Inference only: nothing is dropped. In training mode the choice is random unless nothing can be dropped.
Tensors dropout(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const bool training =
      call.node.opset >= 12 ? call.has(2) && as_bool(call.input(2)) : call.node.opset < 7 && call.node.int_or("is_test", 0) == 0;
  if (training && call.node.opset >= 12 && (!call.has(1) || as_double(call.input(1)) != 0)) {
    throw Error(Code::kUnsupported, "training mode drops elements at random; the reference evaluator only infers");
  }
  const Tensor one = cast(Tensor::of<float>({1}, {1.0f}), call.node.opset < 10 ? x.dtype() : DType::kBool);
  Tensor mask = new_tensor(one.dtype(), x.dims());
  ElementWriter(mask).fill(one, 0, 0, mask.size());
  return {x, mask};
}

struct Loss {
  const Tensor& log_probabilities;  // [batch, classes, …]
  const Tensor& labels;             // [batch, …]
  Tensor weights;                   // [classes], may be undefined
};

// The losses of all positions, reduced as the node says.
Tensor reduced_loss(const Node& node, const Loss& loss) {
  const Tensor& x = loss.log_probabilities;
  require(x.rank() >= 2, "scores of shape {} have no classes", to_string(x.dims()));
  const AxisSplit split = split_at(x.dims(), 1);
  Dims expected = x.dims();
  expected.erase(expected.begin() + 1);
  require(loss.labels.dims() == expected, "labels of shape {} were given for scores of {}", to_string(loss.labels.dims()),
          to_string(x.dims()));
  require(!loss.weights.defined() || loss.weights.size() == split.n, "{} weights were given for {} classes", loss.weights.size(), split.n);
  const std::vector<double> weights =
      loss.weights.defined() ? as_doubles(loss.weights) : std::vector<double>(static_cast<size_t>(split.n), 1.0);
  const bool ignores = node.has("ignore_index");
  const int64_t ignored = node.int_or("ignore_index", 0);
  const std::vector<int64_t> labels = as_ints(loss.labels);
  const std::vector<double> scores = as_doubles(x);
  std::vector<double> losses(labels.size(), 0.0);
  double total_weight = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (ignores && labels[i] == ignored) continue;
    require(labels[i] >= 0 && labels[i] < split.n, "label {} is none of {} classes", labels[i], split.n);
    const auto at = static_cast<int64_t>(i);
    const double weight = weights[static_cast<size_t>(labels[i])];
    losses[i] = -weight * scores[static_cast<size_t>((at / split.inner * split.n + labels[i]) * split.inner + at % split.inner)];
    total_weight += weight;
  }
  const std::string_view reduction = node.string_or("reduction", "mean");
  if (reduction == "none") return cast(Tensor::of(expected, losses), x.dtype());
  require(reduction == "mean" || reduction == "sum", "reduction '{}' is unknown", reduction);
  double total = 0;
  for (const double value : losses) total += value;
  return cast(Tensor::scalar(reduction == "mean" ? total / total_weight : total), x.dtype());
}

Tensors negative_log_likelihood(const KernelCall& call) {
  return {reduced_loss(call.node, {call.input(0), call.input(1), call.optional(2)})};
}

Tensor log_softmax_of_classes(const Tensor& scores) {
  require(scores.rank() >= 2, "scores of shape {} have no classes", to_string(scores.dims()));
  const auto [outer, n, inner] = split_at(scores.dims(), 1);
  std::vector<double> values = as_doubles(scores);
  for (int64_t row = 0; scores.size() != 0 && row < outer * inner; ++row) {
    const auto at = [&, start = row / inner * n * inner + row % inner, step = inner](int64_t i) -> double& {
      return values[static_cast<size_t>(start + i * step)];
    };
    double most = at(0);
    for (int64_t i = 1; i < n; ++i) most = std::max(most, at(i));
    double total = 0;
    for (int64_t i = 0; i < n; ++i) total += std::exp(at(i) - most);
    for (int64_t i = 0; i < n; ++i) at(i) -= most + std::log(total);
  }
  return cast(Tensor::of(scores.dims(), values), scores.dtype());
}

Tensors softmax_cross_entropy(const KernelCall& call) {
  const Tensor log_probabilities = log_softmax_of_classes(call.input(0));
  return {reduced_loss(call.node, {log_probabilities, call.input(1), call.optional(2)}), log_probabilities};
}

}  // namespace

void add_training(KernelTable& table) {
  table.add("Dropout", dropout);
  table.add("NegativeLogLikelihoodLoss", negative_log_likelihood);
  table.add("SoftmaxCrossEntropyLoss", softmax_cross_entropy);
}

}  // namespace kvik::onnx

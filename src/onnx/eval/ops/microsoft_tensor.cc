#include <limits>
#include <map>
#include <string>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/attend.h"
#include "onnx/eval/ops/broadcast.h"
#include "onnx/eval/ops/elements.h"
#include "onnx/eval/ops/numbers.h"

// Small tensor operators of com.microsoft.
namespace kvik::onnx {
namespace {

std::vector<Tensor> ngram_repeat_block(const KernelCall& call) {
  const Tensor &ids = call.input(0), &scores = call.input(1);
  require_rank(ids, 2, "input_ids");
  require_dims(scores, {ids.dim(0), -1}, "the scores");
  const int64_t size = positive_attribute(call.node, "ngram_size"), length = ids.dim(1), vocabulary = scores.dim(1);
  const std::vector<int64_t> tokens = integers_of(ids);
  Tensor result = scores;
  const std::span<float> values = result.mutable_data<float>();
  for (int64_t b = 0; !tokens.empty() && b < ids.dim(0); ++b) {
    const std::span<const int64_t> row = std::span(tokens).subspan(static_cast<size_t>(b * length), static_cast<size_t>(length));
    const auto at = [&](int64_t i) { return row[static_cast<size_t>(i)]; };
    for (int64_t from = 0; from + size <= length; ++from) {
      bool repeats = true;
      for (int64_t j = 0; repeats && j + 1 < size; ++j) repeats = at(from + j) == at(length + 1 - size + j);
      if (!repeats) continue;
      const int64_t banned = at(from + size - 1);
      require(banned >= 0 && banned < vocabulary, "token {} was found, there are scores for {}", banned, vocabulary);
      values[static_cast<size_t>(b * vocabulary + banned)] = -std::numeric_limits<float>::infinity();
    }
  }
  return {result};
}

std::vector<Tensor> expand_dims(const KernelCall& call) {
  const Tensor& x = call.input(0);
  Dims dims = x.dims();
  dims.insert(dims.begin() + normal_axis(as_int(call.input(1)), x.rank() + 1), 1);
  return {x.reshaped(dims)};
}

// The bytes of an element, as a key for a map.
std::string key_of(const Tensor& x, size_t i) {
  if (x.dtype() == DType::kString) return x.data<std::string>()[i];
  const auto each = static_cast<size_t>(bits_per_element(x.dtype()) / 8);
  return {reinterpret_cast<const char*>(x.bytes().data()) + i * each, each};
}

// In the order of their first appearance.
std::vector<Tensor> microsoft_unique(const KernelCall& call) {
  const Tensor& x = call.input(0);
  require_rank(x, 1, "x");
  require(x.dtype() == DType::kString || bits_per_element(x.dtype()) >= 8, "found {}; expected a type of whole bytes",
          dtype_name(x.dtype()));
  std::map<std::string, int64_t> found;
  std::vector<int64_t> first, index, counts;
  for (size_t i = 0; i < static_cast<size_t>(x.size()); ++i) {
    const auto [entry, is_new] = found.emplace(key_of(x, i), static_cast<int64_t>(first.size()));
    if (is_new) {
      first.push_back(static_cast<int64_t>(i));
      counts.push_back(0);
    }
    index.push_back(entry->second);
    ++counts[static_cast<size_t>(entry->second)];
  }
  const auto n = static_cast<int64_t>(first.size());
  Tensor values(x.dtype(), {n});
  ElementWriter writer(values);
  for (int64_t i = 0; i < n; ++i) writer.copy(x, first[static_cast<size_t>(i)], i);
  return {values, Tensor::of<int64_t>({x.size()}, index), Tensor::of<int64_t>({n}, counts)};
}

std::vector<Tensor> bias_softmax(const KernelCall& call) {
  const Tensor& x = call.input(0);
  require_float(x, "the input");
  require(x.rank() > 0, "the input is a scalar; expected at least one dimension");
  const AxisSplit around = split_at(x.dims(), normal_axis(call.node.int_or("axis", 1), x.rank()));
  std::vector<double> y = doubles_of(x);
  const std::vector<double> bias = doubles_of(broadcast_to(call.input(1), x.dims()));
  for (size_t i = 0; i < y.size(); ++i) y[i] += bias[i];
  const auto width = static_cast<size_t>(around.n * around.inner);
  for (size_t from = 0; from < y.size(); from += width) softmax(std::span(y).subspan(from, width));
  return {tensor_of(x.dtype(), x.dims(), y)};
}

// Operators that ONNX adopted unchanged.
std::vector<Tensor> as_standard(const KernelCall& call) {
  const Kernel kernel = reference_kernels().find("", call.node.op);
  if (kernel == nullptr) throw Error(Code::kUnsupported, fmt::format("the reference evaluator has no operator {}", call.node.op));
  return kernel(call);
}

std::vector<Tensor> generation_loop(const KernelCall& call) {
  throw Error(
      Code::kUnsupported,
      fmt::format("{} runs a whole generation inside of the graph; export the decoder without it, since the engine generates itself",
                  call.node.op));
}

}  // namespace

void add_microsoft_tensor(KernelTable& table) {
  table.add(kMicrosoft, "NGramRepeatBlock", ngram_repeat_block);
  table.add(kMicrosoft, "ExpandDims", expand_dims);
  table.add(kMicrosoft, "Unique", microsoft_unique);
  table.add(kMicrosoft, "BiasSoftmax", bias_softmax);
  for (const std::string_view op : {"Trilu", "GatherND", "Range", "GridSample"}) table.add(kMicrosoft, op, as_standard);
  for (const std::string_view op : {"BeamSearch", "GreedySearch", "Sampling"}) table.add(kMicrosoft, op, generation_loop);
}

}  // namespace kvik::onnx

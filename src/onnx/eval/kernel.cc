#include "onnx/eval/kernel.h"

#include <algorithm>
#include <fmt/format.h>
#include <new>
#include <stdexcept>

#include "kvik/error.h"

namespace kvik::onnx {

void Work::take(const Dims& results, std::initializer_list<int64_t> for_each) const {
  if (left_ == nullptr) return;
  double steps = 1;
  const auto multiply = [&steps](int64_t n) { steps *= static_cast<double>(std::max<int64_t>(0, n)); };
  std::for_each(results.begin(), results.end(), multiply);
  std::for_each(for_each.begin(), for_each.end(), multiply);
  if (steps > static_cast<double>(*left_)) {
    throw Error(Code::kTooLarge,
                fmt::format("it needs {:.3g} steps; {:.3g} are left for evaluation at load time", steps, static_cast<double>(*left_)));
  }
  *left_ -= static_cast<int64_t>(steps);
}

const Tensor& KernelCall::input(size_t i) const {
  if (has(i)) return inputs[i];
  throw Error(Code::kBadModel, fmt::format("input {} is missing", i));
}

const Tensor& KernelCall::optional(size_t i) const {
  static const Tensor kUndefined;
  return has(i) ? inputs[i] : kUndefined;
}

Kernel KernelTable::find(std::string_view domain, std::string_view op) const {
  const auto found = kernels_.find({domain, op});
  return found == kernels_.end() ? nullptr : found->second;
}

std::vector<std::pair<std::string_view, std::string_view>> KernelTable::operators() const {
  std::vector<std::pair<std::string_view, std::string_view>> result;
  for (const auto& [key, kernel] : kernels_) result.push_back(key);
  return result;
}

std::vector<Tensor> run_kernel(const Node& node, std::span<const Tensor> inputs, const RunSubgraph& run_subgraph, Work work) {
  const Kernel kernel = reference_kernels().find(node.domain, node.op);
  if (kernel == nullptr) {
    throw Error(Code::kUnsupported, fmt::format("{}: the reference evaluator has no operator {}{}{}", node.describe(), node.domain,
                                                node.domain.empty() ? "" : ".", node.op));
  }
  try {
    return kernel({node, inputs, run_subgraph, work});
  } catch (const Error& e) { throw Error(e.code(), fmt::format("{}: {}", node.describe(), e.what())); } catch (const std::bad_alloc&) {
    throw Error(Code::kTooLarge, fmt::format("{}: not enough memory", node.describe()));
  } catch (const std::length_error&) { throw Error(Code::kTooLarge, fmt::format("{}: a shape is too large", node.describe())); }
}

}  // namespace kvik::onnx

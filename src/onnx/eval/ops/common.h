#pragma once

#include <fmt/format.h>
#include <string>
#include <utility>
#include <vector>

#include "kvik/error.h"
#include "onnx/eval/kernel.h"
#include "tensor/tensor.h"

// Helpers for kernels to read parameters and to refuse. They throw Error(kBadModel) unless stated otherwise; run_kernel prefixes the
// message with the node.
namespace kvik::onnx {

using Tensors = std::vector<Tensor>;

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> message, Args&&... args) {
  throw Error(Code::kBadModel, fmt::format(message, std::forward<Args>(args)...));
}

template <class... Args>
void require(bool condition, fmt::format_string<Args...> message, Args&&... args) {
  if (!condition) refuse(message, std::forward<Args>(args)...);
}

// The largest result of an operator: a hostile shape must not take all memory.
inline constexpr int64_t kMostResultBytes = int64_t{1} << 34;

// Zeros; throws Error(kTooLarge) beyond kMostResultBytes.
Tensor new_tensor(DType dtype, Dims dims);

// A negative axis counts from the end; refuses others outside [-rank, rank).
int normal_axis(int64_t axis, int rank);
// The same for each; refuses duplicates. Sorted.
std::vector<int> normal_axes(const std::vector<int64_t>& axes, int rank);

// A tensor of any integer type, as int64: a shape, axes, starts … A scalar is one element.
std::vector<int64_t> as_ints(const Tensor& tensor);
int64_t as_int(const Tensor& tensor);                  // of a tensor of one integer
double as_double(const Tensor& tensor);                // of a tensor of one number of any type
bool as_bool(const Tensor& tensor);                    // of a tensor of one bool
std::vector<double> as_doubles(const Tensor& tensor);  // of any number type

// A parameter that older opsets have as an attribute and newer ones as input `i`; `absent` if there is neither.
std::vector<int64_t> ints_parameter(const KernelCall& call, size_t i, std::string_view attribute, std::vector<int64_t> absent = {});

void require_rank(const Tensor& tensor, int rank, std::string_view what);
void require_same_dtype(const Tensor& a, const Tensor& b);

// The product of dims[from, to).
int64_t product(const Dims& dims, int from, int to);

// A dense tensor split at one axis: element (o, i, k) is at (o * n + i) * inner + k.
struct AxisSplit {
  int64_t outer;
  int64_t n;
  int64_t inner;
};
AxisSplit split_at(const Dims& dims, int axis);

}  // namespace kvik::onnx

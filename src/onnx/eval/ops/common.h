#pragma once

#include <fmt/format.h>
#include <string>
#include <utility>
#include <vector>

#include "kvik/error.h"
#include "onnx/eval/kernel.h"
#include "tensor/tensor.h"

// What kernels need to read their parameters and to refuse: everything here throws Error(kBadModel) unless it says otherwise,
// and run_kernel puts the node in front of the sentence.
namespace kvik::onnx {

using Tensors = std::vector<Tensor>;

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> sentence, Args&&... args) {
  throw Error(Code::kBadModel, fmt::format(sentence, std::forward<Args>(args)...));
}

template <class... Args>
void require(bool condition, fmt::format_string<Args...> sentence, Args&&... args) {
  if (!condition) refuse(sentence, std::forward<Args>(args)...);
}

// No result of one operator may be larger: a hostile shape must not take the machine's memory.
inline constexpr int64_t kMostResultBytes = int64_t{1} << 34;

// Zeros; throws Error(kTooLarge) beyond kMostResultBytes.
Tensor new_tensor(DType dtype, Dims dims);

// Counts from the end where negative; refuses what lies outside [-rank, rank).
int normal_axis(int64_t axis, int rank);
// As above for each; refuses one that is named twice. Sorted.
std::vector<int> normal_axes(const std::vector<int64_t>& axes, int rank);

// A tensor of any integer type, as int64: a shape, axes, starts … A scalar gives one element.
std::vector<int64_t> as_ints(const Tensor& tensor);
int64_t as_int(const Tensor& tensor);                  // of a tensor of one integer
double as_double(const Tensor& tensor);                // of a tensor of one number of any type
bool as_bool(const Tensor& tensor);                    // of a tensor of one bool
std::vector<double> as_doubles(const Tensor& tensor);  // of any number type

// A parameter that older opsets have as an attribute and newer ones as input `i`; `absent` where there is neither.
std::vector<int64_t> ints_parameter(const KernelCall& call, size_t i, std::string_view attribute, std::vector<int64_t> absent = {});

void require_rank(const Tensor& tensor, int rank, std::string_view what);
void require_same_dtype(const Tensor& a, const Tensor& b);

// Products of dims[from, to).
int64_t product(const Dims& dims, int from, int to);

// A dense tensor seen from one axis: element (o, i, k) stands at (o * n + i) * inner + k.
struct AxisSplit {
  int64_t outer;
  int64_t n;
  int64_t inner;
};
AxisSplit split_at(const Dims& dims, int axis);

}  // namespace kvik::onnx

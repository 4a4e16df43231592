#pragma once

#include <functional>

#include "onnx/eval/ops/common.h"

// Copies elements of any type, and widens small types to computable ones.
namespace kvik::onnx {

bool is_small_float(DType dtype);  // a float of fewer than 32 bits

// Small floats as f32, and packed integers (4, 2 bits) as i8 or u8; anything else unchanged.
Tensor widened(const Tensor& tensor);
// The inverse, from f32, i8 or u8 to `dtype`: rounds to nearest even and saturates 8-bit floats.
Tensor narrowed(const Tensor& tensor, DType dtype);

// Runs a kernel whose floats are all of one type: small floats are widened before, and the f32 results are rounded once.
Tensors run_in_f32(Kernel kernel, const KernelCall& call);

// The same as a Kernel, for the table.
template <Kernel kKernel>
Tensors in_f32(const KernelCall& call) {
  return run_in_f32(kKernel, call);
}

// The elements at `start` + the sum of index * stride, for every index of `dims`. The caller has checked the bounds.
Tensor strided_copy(const Tensor& source, int64_t start, const Dims& dims, const Dims& strides);

// Where an element comes from on one axis; kFill for none.
inline constexpr int64_t kFill = -1;
using SourceIndex = std::function<int64_t(size_t axis, int64_t index)>;

// A tensor of `dims` whose element at an index is that of `source` at source_index, axis by axis, or element 0 of `fill` if that is
// kFill. Refuses indices outside the source.
Tensor remapped(const Tensor& source, const Dims& dims, const SourceIndex& source_index, const Tensor& fill = {});

// Copies runs of elements of any dtype, including strings and packed types, between tensors of the same dtype.
class ElementWriter {
 public:
  explicit ElementWriter(Tensor& target);
  // Elements [from, from + n) of `source` become elements [to, to + n) of the target. The caller has checked the bounds.
  void copy(const Tensor& source, int64_t from, int64_t to, int64_t n = 1);
  // Element `from` of `source` becomes every one of [to, to + n).
  void fill(const Tensor& source, int64_t from, int64_t to, int64_t n);

 private:
  void copy_packed(const Tensor& source, int64_t from, int64_t to, int64_t n);

  std::byte* bytes_ = nullptr;
  std::string* strings_ = nullptr;
  size_t bits_;
};

}  // namespace kvik::onnx

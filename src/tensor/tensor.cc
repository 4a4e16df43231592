#include "tensor/tensor.h"

#include <cstring>
#include <fmt/format.h>
#include <new>

#include "kvik/error.h"

namespace kvik {
namespace {

constexpr std::align_val_t kAlignment{64};  // a cache line, and the widest vector register

std::shared_ptr<std::byte> allocate(size_t size_bytes) {
  void* memory = ::operator new(std::max<size_t>(size_bytes, 1), kAlignment, std::nothrow);
  if (memory == nullptr) throw Error(Code::kTooLarge, fmt::format("cannot allocate a tensor of {} bytes", size_bytes));
  return {static_cast<std::byte*>(memory), [](std::byte* p) { ::operator delete(p, kAlignment); }};
}

}  // namespace

Tensor::Tensor(DType dtype, Dims dims) : dtype_(dtype), dims_(std::move(dims)), n_elements_(element_count(dims_)) {
  if (dtype_ == DType::kString) {
    strings_ = std::make_shared<std::vector<std::string>>(static_cast<size_t>(n_elements_));
    return;
  }
  const std::shared_ptr<std::byte> memory = allocate(size_bytes());
  std::memset(memory.get(), 0, size_bytes());
  data_ = memory.get();
  owner_ = memory;
  owned_ = true;
}

Tensor Tensor::view(DType dtype, Dims dims, const std::byte* data, std::shared_ptr<const void> owner) {
  Tensor result;
  result.dtype_ = dtype;
  result.dims_ = std::move(dims);
  result.n_elements_ = element_count(result.dims_);
  result.data_ = data;
  result.owner_ = std::move(owner);
  return result;
}

std::span<std::byte> Tensor::mutable_bytes() {
  make_unique();
  return {const_cast<std::byte*>(data_), size_bytes()};
}

Tensor Tensor::reshaped(Dims dims) const {
  const int64_t n = element_count(dims);
  if (n != n_elements_) {
    throw Error(Code::kBadModel, fmt::format("a tensor of shape {} cannot be reshaped to {}: it has {} elements, not {}", to_string(dims_),
                                             to_string(dims), n_elements_, n));
  }
  Tensor result = *this;
  result.dims_ = std::move(dims);
  return result;
}

void Tensor::require(DType wanted) const {
  if (dtype_ == wanted) return;
  throw Error(Code::kBadModel, fmt::format("found a tensor of type {}; expected {}", dtype_name(dtype_), dtype_name(wanted)));
}

void Tensor::make_unique() {
  if (dtype_ == DType::kString) {
    if (strings_.use_count() != 1) strings_ = std::make_shared<std::vector<std::string>>(*strings_);
    return;
  }
  if (owned_ && owner_.use_count() == 1) return;
  const std::shared_ptr<std::byte> memory = allocate(size_bytes());
  if (size_bytes() != 0) std::memcpy(memory.get(), data_, size_bytes());
  data_ = memory.get();
  owner_ = memory;
  owned_ = true;
}

}  // namespace kvik

#include "onnx/eval/ops/elements.h"

#include <cstring>

#include "onnx/eval/ops/broadcast.h"

namespace kvik::onnx {
namespace {

template <class T>
Tensor decode(const Tensor& tensor) {
  Tensor result(DType::kF32, tensor.dims());
  const auto from = tensor.data<T>();
  const auto to = result.mutable_data<float>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(from[i]);
  return result;
}

template <class T>
Tensor encode(const Tensor& tensor) {
  Tensor result(kDTypeOf<T>, tensor.dims());
  const auto from = tensor.data<float>();
  const auto to = result.mutable_data<T>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = T(from[i]);
  return result;
}

// The bits of element i of a packed tensor, in the low bits.
uint8_t packed_at(const std::byte* bytes, size_t bits, size_t i) {
  const size_t per_byte = 8 / bits;
  const auto byte = static_cast<unsigned>(bytes[i / per_byte]);
  return static_cast<uint8_t>((byte >> (i % per_byte * bits)) & ((1u << bits) - 1));
}

void set_packed(std::byte* bytes, size_t bits, size_t i, uint8_t value) {
  const size_t per_byte = 8 / bits;
  const auto shift = static_cast<unsigned>(i % per_byte * bits);
  const unsigned mask = ((1u << bits) - 1) << shift;
  const auto old = static_cast<unsigned>(bytes[i / per_byte]);
  bytes[i / per_byte] = static_cast<std::byte>((old & ~mask) | ((static_cast<unsigned>(value) << shift) & mask));
}

Tensor unpack_integers(const Tensor& tensor) {
  const auto bits = static_cast<size_t>(bits_per_element(tensor.dtype()));
  const bool is_signed = tensor.dtype() == DType::kI4 || tensor.dtype() == DType::kI2;
  Tensor result(is_signed ? DType::kI8 : DType::kU8, tensor.dims());
  const std::span<std::byte> to = result.mutable_bytes();
  for (size_t i = 0; i < to.size(); ++i) {
    unsigned value = packed_at(tensor.bytes().data(), bits, i);
    if (is_signed && (value >> (bits - 1)) != 0) value |= 0xFFu << bits;  // the sign
    to[i] = static_cast<std::byte>(value & 0xFFu);
  }
  return result;
}

Tensor unpack_f4(const Tensor& tensor) {
  Tensor result(DType::kF32, tensor.dims());
  const auto to = result.mutable_data<float>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = decode_f4e2m1(packed_at(tensor.bytes().data(), 4, i));
  return result;
}

Tensor pack_f4(const Tensor& tensor) {
  Tensor result(DType::kF4E2M1, tensor.dims());
  const auto from = tensor.data<float>();
  std::byte* to = result.mutable_bytes().data();
  for (size_t i = 0; i < from.size(); ++i) set_packed(to, 4, i, encode_f4e2m1(from[i]));
  return result;
}

// Keeps the low bits: the caller's values fit.
Tensor pack_integers(const Tensor& tensor, DType dtype) {
  const bool is_signed = dtype == DType::kI4 || dtype == DType::kI2;
  require(tensor.dtype() == (is_signed ? DType::kI8 : DType::kU8), "{} cannot be packed as {}", dtype_name(tensor.dtype()),
          dtype_name(dtype));
  Tensor result(dtype, tensor.dims());
  const auto bits = static_cast<size_t>(bits_per_element(dtype));
  std::byte* to = result.mutable_bytes().data();
  const std::span<const std::byte> from = tensor.bytes();
  for (size_t i = 0; i < from.size(); ++i) set_packed(to, bits, i, static_cast<uint8_t>(from[i]));
  return result;
}

}  // namespace

bool is_small_float(DType dtype) { return is_float(dtype) && bits_per_element(dtype) < 32; }

Tensor widened(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kF16: return decode<Half>(tensor);
    case DType::kBF16: return decode<BFloat16>(tensor);
    case DType::kF8E4M3FN: return decode<Float8E4M3FN>(tensor);
    case DType::kF8E4M3FNUZ: return decode<Float8E4M3FNUZ>(tensor);
    case DType::kF8E5M2: return decode<Float8E5M2>(tensor);
    case DType::kF8E5M2FNUZ: return decode<Float8E5M2FNUZ>(tensor);
    case DType::kF8E8M0: return decode<Float8E8M0>(tensor);
    case DType::kF4E2M1: return unpack_f4(tensor);
    case DType::kI4:
    case DType::kU4:
    case DType::kI2:
    case DType::kU2: return unpack_integers(tensor);
    default: return tensor;
  }
}

Tensor narrowed(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  switch (dtype) {
    case DType::kF16: return encode<Half>(tensor);
    case DType::kBF16: return encode<BFloat16>(tensor);
    case DType::kF8E4M3FN: return encode<Float8E4M3FN>(tensor);
    case DType::kF8E4M3FNUZ: return encode<Float8E4M3FNUZ>(tensor);
    case DType::kF8E5M2: return encode<Float8E5M2>(tensor);
    case DType::kF8E5M2FNUZ: return encode<Float8E5M2FNUZ>(tensor);
    case DType::kF4E2M1: return pack_f4(tensor);
    case DType::kI4:
    case DType::kU4:
    case DType::kI2:
    case DType::kU2: return pack_integers(tensor, dtype);
    default: refuse("{} cannot be rounded to {}", dtype_name(tensor.dtype()), dtype_name(dtype));
  }
}

Tensors run_in_f32(Kernel kernel, const KernelCall& call) {
  DType small = DType::kUndefined;
  Tensors wide(call.inputs.begin(), call.inputs.end());
  for (Tensor& input : wide) {
    if (!is_small_float(input.dtype())) continue;
    require(small == DType::kUndefined || small == input.dtype(), "found inputs of {} and {}; expected the same type", dtype_name(small),
            dtype_name(input.dtype()));
    small = input.dtype();
    input = widened(input);
  }
  if (small == DType::kUndefined) return kernel(call);
  Tensors results = kernel({call.node, wide, call.run_subgraph, call.work});
  for (Tensor& result : results) {
    if (result.dtype() == DType::kF32) result = narrowed(result, small);
  }
  return results;
}

Tensor strided_copy(const Tensor& source, int64_t start, const Dims& dims, const Dims& strides) {
  Tensor result = new_tensor(source.dtype(), dims);
  if (dims.empty()) {
    ElementWriter(result).copy(source, start, 0);
    return result;
  }
  const int64_t n = dims.back();
  const int64_t step = strides.back();
  if (result.size() == 0) return result;
  ElementWriter writer(result);
  int64_t to = 0;
  for (Walk<1> walk({dims.begin(), dims.end() - 1}, {Dims(strides.begin(), strides.end() - 1)}); walk.more(); walk.next(), to += n) {
    const int64_t from = start + walk.offset(0);
    if (step == 1) {
      writer.copy(source, from, to, n);
    } else {
      for (int64_t i = 0; i < n; ++i) writer.copy(source, from + i * step, to + i);
    }
  }
  return result;
}

Tensor remapped(const Tensor& source, const Dims& dims, const SourceIndex& source_index, const Tensor& fill) {
  Tensor result = new_tensor(source.dtype(), dims);
  if (result.size() == 0) return result;
  if (dims.empty()) return source;
  const Dims strides = strides_of(source.dims());
  // The offset of one axis, or kFill.
  const auto offset = [&](size_t axis, int64_t index) {
    const int64_t from = source_index(axis, index);
    require(from == kFill || (from >= 0 && from < source.dims()[axis]), "index {} is outside axis {} of {}", from, axis,
            source.dims()[axis]);
    return from == kFill ? kFill : from * strides[axis];
  };
  const size_t last = dims.size() - 1;
  ElementWriter writer(result);
  int64_t to = 0;
  for (Walk<0> walk({dims.begin(), dims.end() - 1}, {}); walk.more(); walk.next()) {
    int64_t base = 0;
    for (size_t axis = 0; axis < last && base != kFill; ++axis) {
      const int64_t part = offset(axis, walk.index()[axis]);
      base = part == kFill ? kFill : base + part;
    }
    for (int64_t i = 0; i < dims[last]; ++i, ++to) {
      const int64_t part = base == kFill ? kFill : offset(last, i);
      writer.copy(part == kFill ? fill : source, part == kFill ? 0 : base + part, to);
    }
  }
  return result;
}

ElementWriter::ElementWriter(Tensor& target) : bits_(static_cast<size_t>(bits_per_element(target.dtype()))) {
  if (target.dtype() == DType::kString) {
    strings_ = target.mutable_data<std::string>().data();
  } else {
    bytes_ = target.mutable_bytes().data();
  }
}

void ElementWriter::copy(const Tensor& source, int64_t from, int64_t to, int64_t n) {
  if (n <= 0) return;
  if (strings_ != nullptr) {
    const std::string* strings = source.data<std::string>().data();
    std::copy_n(strings + from, n, strings_ + to);
  } else if (bits_ >= 8) {
    const size_t each = bits_ / 8;
    std::memcpy(bytes_ + static_cast<size_t>(to) * each, source.bytes().data() + static_cast<size_t>(from) * each,
                static_cast<size_t>(n) * each);
  } else {
    copy_packed(source, from, to, n);
  }
}

void ElementWriter::copy_packed(const Tensor& source, int64_t from, int64_t to, int64_t n) {
  const std::byte* bytes = source.bytes().data();
  for (int64_t i = 0; i < n; ++i) {
    set_packed(bytes_, bits_, static_cast<size_t>(to + i), packed_at(bytes, bits_, static_cast<size_t>(from + i)));
  }
}

void ElementWriter::fill(const Tensor& source, int64_t from, int64_t to, int64_t n) {
  if (strings_ != nullptr || bits_ < 8) {
    for (int64_t i = 0; i < n; ++i) copy(source, from, to + i);
    return;
  }
  if (n <= 0) return;
  copy(source, from, to);
  const size_t each = bits_ / 8;
  std::byte* begin = bytes_ + static_cast<size_t>(to) * each;
  for (size_t done = 1, all = static_cast<size_t>(n); done < all; done *= 2) {
    std::memcpy(begin + done * each, begin, std::min(done, all - done) * each);
  }
}

}  // namespace kvik::onnx

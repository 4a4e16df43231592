#include "onnx/tensor_data.h"

#include <cstring>
#include <fmt/format.h>
#include <protozero/exception.hpp>

#include "kvik/error.h"
#include "onnx/tensor_fields.h"
#include "onnx/wire.h"

namespace kvik::onnx {
namespace {

size_t alignment_of(DType dtype) {
  const auto bytes = static_cast<size_t>(bits_per_element(dtype)) / 8;
  if (dtype == DType::kC64 || dtype == DType::kC128) return bytes / 2;
  return bytes == 0 ? 1 : bytes;
}

// Writes numbers one after another, each as its low `width_bytes` bytes.
class Sink {
 public:
  Sink(std::span<std::byte> target, size_t width_bytes) : target_(target), width_bytes_(width_bytes) {}

  template <class T>
  void put(T value) {
    if (at_ + width_bytes_ <= target_.size()) std::memcpy(target_.data() + at_, &value, width_bytes_);
    at_ += width_bytes_;
  }
  bool exactly_full() const { return at_ == target_.size(); }
  size_t n_written() const { return at_ / width_bytes_; }
  size_t n_wanted() const { return target_.size() / width_bytes_; }

 private:
  std::span<std::byte> target_;
  size_t width_bytes_;
  size_t at_ = 0;
};

// A repeated number may be packed or one field per number.
template <class Reader, class One, class Many>
void put_all(Reader& reader, Sink& sink, One one, Many many) {
  if (reader.wire_type() == kBytes) {
    for (const auto value : many(reader)) sink.put(value);
  } else {
    sink.put(one(reader));
  }
}

TensorField typed_field_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kC64: return TensorField::kFloatData;
    case DType::kF64:
    case DType::kC128: return TensorField::kDoubleData;
    case DType::kI64: return TensorField::kInt64Data;
    case DType::kU32:
    case DType::kU64: return TensorField::kUint64Data;
    case DType::kString: return TensorField::kStringData;
    default: return TensorField::kInt32Data;
  }
}

size_t sink_width(DType dtype) {
  switch (dtype) {
    case DType::kC64: return 4;  // two numbers per element
    case DType::kC128: return 8;
    default: return std::max<size_t>(1, static_cast<size_t>(bits_per_element(dtype)) / 8);
  }
}

Tensor load_typed_numbers(const TensorData& data) {
  // Every number takes at least one byte of the message, so a short message cannot request much memory.
  const size_t wanted_bytes = storage_bytes(data.dtype, data.n_elements);
  if (wanted_bytes / 16 > data.stored.size()) {
    throw Error(Code::kBadModel,
                fmt::format("tensor '{}' of shape {} has no data for its {} elements", data.name, to_string(data.dims), data.n_elements));
  }
  Tensor result(data.dtype, data.dims);
  Sink sink(result.mutable_bytes(), sink_width(data.dtype));
  const TensorField wanted = typed_field_of(data.dtype);
  auto reader = message_of<TensorField>(data.stored);
  while (reader.next()) {
    if (reader.tag() != wanted) {
      reader.skip();
      continue;
    }
    switch (wanted) {
      case TensorField::kFloatData:
        require_wire_type(reader, kFixed32, true);
        put_all(
            reader, sink, [](auto& r) { return r.get_float(); }, [](auto& r) { return r.get_packed_float(); });
        break;
      case TensorField::kDoubleData:
        require_wire_type(reader, kFixed64, true);
        put_all(
            reader, sink, [](auto& r) { return r.get_double(); }, [](auto& r) { return r.get_packed_double(); });
        break;
      case TensorField::kInt64Data:
        require_wire_type(reader, kVarint, true);
        put_all(
            reader, sink, [](auto& r) { return r.get_int64(); }, [](auto& r) { return r.get_packed_int64(); });
        break;
      case TensorField::kUint64Data:
        require_wire_type(reader, kVarint, true);
        put_all(
            reader, sink, [](auto& r) { return r.get_uint64(); }, [](auto& r) { return r.get_packed_uint64(); });
        break;
      default:
        require_wire_type(reader, kVarint, true);
        put_all(
            reader, sink, [](auto& r) { return r.get_int32(); }, [](auto& r) { return r.get_packed_int32(); });
        break;
    }
  }
  if (!sink.exactly_full()) {
    throw Error(Code::kBadModel, fmt::format("tensor '{}' of shape {} and type {} has {} numbers; expected {}", data.name,
                                             to_string(data.dims), dtype_name(data.dtype), sink.n_written(), sink.n_wanted()));
  }
  return result;
}

Tensor load_strings(const TensorData& data) {
  std::vector<std::string> strings;
  auto reader = message_of<TensorField>(data.stored);
  while (reader.next(TensorField::kStringData, kBytes)) strings.emplace_back(bytes_of(reader));
  if (static_cast<int64_t>(strings.size()) != data.n_elements) {
    throw Error(Code::kBadModel, fmt::format("tensor '{}' of shape {} has {} strings; expected {}", data.name, to_string(data.dims),
                                             strings.size(), data.n_elements));
  }
  return Tensor::of(data.dims, strings);
}

// A bool other than 0 and 1 is undefined behavior in C++, but such files exist.
Tensor with_valid_bools(Tensor tensor) {
  if (tensor.dtype() != DType::kBool) return tensor;
  bool valid = true;
  for (const std::byte b : tensor.bytes()) valid = valid && b <= std::byte{1};
  if (valid) return tensor;
  for (std::byte& b : tensor.mutable_bytes()) b = b != std::byte{0} ? std::byte{1} : std::byte{0};
  return tensor;
}

Tensor load_raw(const TensorData& data) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data.stored.data());
  if (reinterpret_cast<uintptr_t>(bytes) % alignment_of(data.dtype) == 0) return Tensor::view(data.dtype, data.dims, bytes, data.owner);
  Tensor copy(data.dtype, data.dims);
  if (!data.stored.empty()) std::memcpy(copy.mutable_bytes().data(), bytes, data.stored.size());
  return copy;
}

}  // namespace

Tensor load(const TensorData& data) {
  try {
    if (data.form == TensorData::Form::kRaw) return with_valid_bools(load_raw(data));
    if (data.dtype == DType::kString) return load_strings(data);
    return with_valid_bools(load_typed_numbers(data));
  } catch (const protozero::exception& e) {
    throw Error(Code::kBadModel, fmt::format("tensor '{}': the data is damaged ({})", data.name, e.what()));
  }
}

}  // namespace kvik::onnx

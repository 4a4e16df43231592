#include "tensor_writer.h"

#include <protozero/pbf_writer.hpp>

#include "onnx/tensor_fields.h"

using kvik::onnx::TensorField;

namespace {

protozero::pbf_tag_type tag(TensorField field) { return static_cast<protozero::pbf_tag_type>(field); }

}  // namespace

std::string serialized(const kvik::Tensor& tensor, std::string_view name) {
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  for (const int64_t dim : tensor.dims()) writer.add_int64(tag(TensorField::kDims), dim);
  writer.add_int32(tag(TensorField::kDataType), static_cast<int32_t>(tensor.dtype()));
  writer.add_string(tag(TensorField::kName), name.data(), name.size());
  if (tensor.dtype() == kvik::DType::kString) {
    for (const std::string& text : tensor.data<std::string>()) writer.add_bytes(tag(TensorField::kStringData), text);
  } else {
    const std::span<const std::byte> raw = tensor.bytes();
    writer.add_bytes(tag(TensorField::kRawData), reinterpret_cast<const char*>(raw.data()), raw.size());
  }
  return bytes;
}

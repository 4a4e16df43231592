#include <charconv>
#include <fmt/format.h>

#include "kvik/error.h"
#include "onnx/messages.h"
#include "onnx/tensor_fields.h"
#include "onnx/wire.h"

namespace kvik::onnx {
namespace {

struct External {
  bool used = false;
  std::string_view location;
  uint64_t offset_bytes = 0;
  std::optional<uint64_t> length_bytes;
};

uint64_t number_of(std::string_view text, std::string_view key, std::string_view tensor) {
  uint64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault == std::errc() && end == text.data() + text.size()) return number;
  throw Error(Code::kBadModel,
              fmt::format("tensor '{}': the {} of its external data is '{}'; expected a number of bytes", tensor, key, text));
}

void read_external_entry(std::string_view bytes, External& external, std::string_view tensor) {
  const auto [key, value] = parse_entry(bytes);
  if (key == "location") external.location = value;
  if (key == "offset") external.offset_bytes = number_of(value, key, tensor);
  if (key == "length") external.length_bytes = number_of(value, key, tensor);
}

// Checks that the external data has the size of the tensor and is inside the file.
void use_external(const External& external, TensorData& data, ExternalData& files) {
  if (data.dtype == DType::kString)
    throw Error(Code::kBadModel, fmt::format("tensor '{}' has strings, which cannot be external data", data.name));
  const std::shared_ptr<const MappedFile> file = files.open(external.location);
  const uint64_t needed = storage_bytes(data.dtype, data.n_elements);
  const uint64_t length = external.length_bytes.value_or(needed);
  if (length != needed) {
    throw Error(Code::kBadModel, fmt::format("tensor '{}' of shape {} and type {} needs {} bytes; its external data has {}", data.name,
                                             to_string(data.dims), dtype_name(data.dtype), needed, length));
  }
  if (external.offset_bytes > file->size_bytes() || length > file->size_bytes() - external.offset_bytes) {
    throw Error(Code::kBadModel,
                fmt::format("tensor '{}' is at bytes {} to {} of '{}', which has only {}; the file may be truncated", data.name,
                            external.offset_bytes, external.offset_bytes + length, external.location, file->size_bytes()));
  }
  data.form = TensorData::Form::kRaw;
  data.stored = file->text().substr(external.offset_bytes, length);
  data.owner = file;
  data.external_file = external.location;
}

void use_raw(std::string_view raw, TensorData& data) {
  if (data.dtype == DType::kString)
    throw Error(Code::kBadModel, fmt::format("tensor '{}' has strings as raw data, which ONNX does not allow", data.name));
  const size_t needed = storage_bytes(data.dtype, data.n_elements);
  if (raw.size() != needed) {
    throw Error(Code::kBadModel, fmt::format("tensor '{}' of shape {} and type {} needs {} bytes; {} are stored", data.name,
                                             to_string(data.dims), dtype_name(data.dtype), needed, raw.size()));
  }
  data.form = TensorData::Form::kRaw;
  data.stored = raw;
}

}  // namespace

TensorData parse_tensor(std::string_view bytes, ParseContext& context) {
  TensorData data;
  External external;
  std::optional<std::string_view> raw;
  std::vector<std::string_view> external_entries;
  int64_t dtype = 0;
  auto message = message_of<TensorField>(bytes);
  while (message.next()) {
    switch (message.tag_and_type()) {
      case tag_and_type(TensorField::kDims, kVarint): data.dims.push_back(message.get_int64()); break;
      case tag_and_type(TensorField::kDims, kBytes):
        for (const int64_t dim : message.get_packed_int64()) data.dims.push_back(dim);
        break;
      case tag_and_type(TensorField::kDataType, kVarint): dtype = message.get_int32(); break;
      case tag_and_type(TensorField::kName, kBytes): data.name = bytes_of(message); break;
      case tag_and_type(TensorField::kRawData, kBytes): raw = bytes_of(message); break;
      case tag_and_type(TensorField::kExternalData, kBytes): external_entries.push_back(bytes_of(message)); break;
      case tag_and_type(TensorField::kDataLocation, kVarint): external.used = message.get_int32() == 1; break;
      case tag_and_type(TensorField::kSegment, kBytes):
        throw Error(Code::kUnsupported, fmt::format("tensor '{}' is stored in segments, which are not supported", data.name));
      default: message.skip();
    }
  }
  if (dtype < 1 || dtype > kLastDType) {
    throw Error(Code::kBadModel, fmt::format("tensor '{}' has unknown element type {}; expected 1 to {}", data.name, dtype, kLastDType));
  }
  data.dtype = static_cast<DType>(dtype);
  const std::optional<int64_t> n_elements = checked_elements(data.dims);
  if (!n_elements) throw Error(Code::kBadModel, fmt::format("tensor '{}' has the invalid shape {}", data.name, to_string(data.dims)));
  data.n_elements = *n_elements;
  data.stored = bytes;
  data.owner = context.owner;
  for (const std::string_view entry : external_entries) read_external_entry(entry, external, data.name);
  if (external.used) {
    use_external(external, data, context.external);
  } else if (raw) {
    use_raw(*raw, data);
  }
  return data;
}

}  // namespace kvik::onnx

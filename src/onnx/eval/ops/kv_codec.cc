#include "onnx/eval/ops/kv_codec.h"

#include <algorithm>
#include <cmath>

#include "onnx/eval/ops/numbers.h"

namespace kvik::onnx {

KvCodec::KvCodec(DType dtype, const Form& form, int64_t n_heads, int64_t head_size)
    : dtype_(dtype), n_heads_(n_heads), head_size_(head_size) {
  const bool per_channel = form.quantization == "PER_CHANNEL";
  require(per_channel || form.quantization == "PER_TENSOR" || form.quantization == "NONE",
          "found a cache quantized as '{}'; expected one of NONE, PER_TENSOR, PER_CHANNEL", form.quantization);
  quantized_ = form.quantization != "NONE";
  if (!quantized_) {
    require(dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16, "a cache of {} needs a quantization", dtype_name(dtype));
    return;
  }
  nibbles_ = form.bits == 4;
  const bool known = nibbles_ ? dtype == DType::kU8 : dtype == DType::kI8 || dtype == DType::kF8E4M3FN;
  require(known, "found a cache of {} with codes of {} bits; expected i8 or f8e4m3fn with 8 or u8 with 4", dtype_name(dtype), form.bits);
  require(form.scale.defined(), "a quantized cache needs a scale");
  const int64_t expected = per_channel ? n_heads * head_size : 1;
  require(form.scale.size() == expected, "the scale of the cache has shape {}; expected {} elements", to_string(form.scale.dims()),
          expected);
  scales_ = doubles_of(form.scale);
}

double KvCodec::scale(int64_t head, size_t d) const {
  const double found = scales_.size() == 1 ? scales_[0] : scales_[static_cast<size_t>(head * head_size_) + d];
  return found == 0 ? 1.0 : found;  // an unset scale
}

Heads KvCodec::decode(const Tensor& stored, std::string_view name) const {
  require(stored.dtype() == dtype_, "{} is of {}; expected {}", name, dtype_name(stored.dtype()), dtype_name(dtype_));
  require_dims(stored, {-1, n_heads_, -1, nibbles_ ? (head_size_ + 1) / 2 : head_size_}, name);
  if (!quantized_) return heads_of_4d(stored, name);
  Heads result(stored.dim(0), n_heads_, stored.dim(2), head_size_);
  const std::vector<double> values = doubles_of(stored);
  const auto row_size = static_cast<size_t>(stored.dim(3));
  for_rows(result, [&](int64_t b, int64_t h, int64_t i) {
    const size_t from = static_cast<size_t>((b * n_heads_ + h) * result.length + i) * row_size;
    const std::span<double> row = result.row(b, h, i);
    for (size_t d = 0; d < row.size(); ++d) {
      const double code =
          nibbles_ ? static_cast<double>((static_cast<unsigned>(values[from + d / 2]) >> (d % 2 * 4)) & 15u) - 8 : values[from + d];
      row[d] = code * scale(h, d);
    }
  });
  return result;
}

Tensor KvCodec::encode(const Heads& heads) const {
  if (!quantized_) return tensor_4d(dtype_, heads);
  Heads codes(heads.batch, heads.heads, heads.length, nibbles_ ? (head_size_ + 1) / 2 : head_size_);
  for_rows(heads, [&](int64_t b, int64_t h, int64_t i) {
    const std::span<const double> from = heads.row(b, h, i);
    const std::span<double> to = codes.row(b, h, i);
    for (size_t d = 0; d < from.size(); ++d) {
      const double code = from[d] / scale(h, d);
      if (!nibbles_) {
        to[d] = code;
      } else {
        to[d / 2] += (std::clamp(std::nearbyint(code), -8.0, 7.0) + 8) * (d % 2 == 0 ? 1 : 16);
      }
    }
    if (nibbles_ && from.size() % 2 != 0) to.back() += 8 * 16;  // pads the last byte with the code of zero
  });
  return tensor_4d(dtype_, codes);
}

}  // namespace kvik::onnx

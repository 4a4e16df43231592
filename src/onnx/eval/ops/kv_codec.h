#pragma once

#include "onnx/eval/ops/attend.h"
#include "onnx/eval/ops/common.h"

namespace kvik::onnx {

// The format of a key or value cache: floats, or signed codes times a scale: 8 bits (i8), 4 bits (two per byte, offset by 8) or
// f8e4m3fn.
class KvCodec {
 public:
  struct Form {
    std::string_view quantization = "NONE";  // or PER_TENSOR, PER_CHANNEL
    int64_t bits = 0;                        // per code; 0: those of the type
    Tensor scale;
  };

  // `dtype` is the type of the stored tensor.
  KvCodec(DType dtype, const Form& form, int64_t n_heads, int64_t head_size);

  // From [batch, heads, length, stored size].
  Heads decode(const Tensor& stored, std::string_view name) const;
  Tensor encode(const Heads& heads) const;

 private:
  double scale(int64_t head, size_t d) const;

  DType dtype_;
  bool quantized_ = false, nibbles_ = false;
  int64_t n_heads_, head_size_;
  std::vector<double> scales_;
};

}  // namespace kvik::onnx

#pragma once

#include <memory>
#include <string_view>

#include "tensor/tensor.h"

namespace kvik::onnx {

// A reference to a tensor in a model file: where its elements are. Cheap to copy; keeps the file mapped.
struct TensorData {
  std::string_view name;
  DType dtype = DType::kUndefined;
  Dims dims;  // the element count is checked
  int64_t n_elements = 0;

  enum class Form {
    kRaw,    // `stored` is the elements, little endian, exactly as many bytes as dims and dtype need
    kTyped,  // `stored` is the whole message; its typed fields have the elements
  };
  Form form = Form::kTyped;
  std::string_view stored;
  std::shared_ptr<const void> owner;  // of `stored`: the mapped model or external-data file
  std::string_view external_file;     // as named in the model; empty if the elements are in the model file
};

// The elements; a view of the mapped file if the alignment allows it. Throws Error(kBadModel).
Tensor load(const TensorData& data);

}  // namespace kvik::onnx

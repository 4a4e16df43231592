#pragma once

#include <memory>
#include <string_view>

#include "tensor/tensor.h"

namespace kvik::onnx {

// A tensor as a model file holds it: where its elements are, not the elements. Cheap to copy; it keeps the file mapped.
struct TensorData {
  std::string_view name;
  DType dtype = DType::kUndefined;
  Dims dims;  // checked: the element count fits
  int64_t n_elements = 0;

  enum class Form {
    kRaw,    // `stored` is the elements, little endian, of exactly the size that dims and dtype say
    kTyped,  // `stored` is the whole message, whose typed fields hold the elements
  };
  Form form = Form::kTyped;
  std::string_view stored;
  std::shared_ptr<const void> owner;  // of `stored`: the mapped model or external-data file
  std::string_view external_file;     // the name inside the model; empty when the model file itself holds the elements
};

// The elements; a view into the mapped file wherever alignment allows it. Throws Error(kBadModel).
Tensor load(const TensorData& data);

}  // namespace kvik::onnx

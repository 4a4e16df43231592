#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace kvik::backend {

// A tensor where an executor keeps it, which may be another device. Immutable, shared.
class DeviceValue {
 public:
  virtual ~DeviceValue() = default;
  virtual DType dtype() const = 0;
  virtual const Dims& dims() const = 0;
  // A view where the memory is the host's, else a copy.
  virtual Tensor to_host() const = 0;
};
using ValuePtr = std::shared_ptr<const DeviceValue>;

struct NamedValue {
  std::string_view name;
  ValuePtr value;
};

// Runs one ONNX file as a whole. Any thread.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual ValuePtr from_host(Tensor tensor) = 0;
  // Exactly the declared inputs are given; gives the outputs asked for, left where they were made.
  virtual std::vector<ValuePtr> run(std::span<const NamedValue> inputs, std::span<const std::string_view> outputs) = 0;
};

}  // namespace kvik::backend

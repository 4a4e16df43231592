#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace kvik::backend {

// A tensor in an executor's memory, possibly on another device. Immutable, shared.
class DeviceValue {
 public:
  virtual ~DeviceValue() = default;
  virtual DType dtype() const = 0;
  virtual const Dims& dims() const = 0;
  // A view if it is in host memory, else a copy.
  virtual Tensor to_host() const = 0;
};
using ValuePtr = std::shared_ptr<const DeviceValue>;

struct NamedValue {
  std::string_view name;
  ValuePtr value;
};

// A requested output. Outputs that the caller reads are put in host memory; the executor chooses for others.
struct Wanted {
  std::string_view name;
  bool on_host = false;
};

// A selection of a value: `entries` along `axis`, in this order, and the first `n_positions` along `position_axis` (-1: no such axis).
struct Selection {
  int axis = 0;
  std::vector<int64_t> entries;
  int position_axis = -1;
  int64_t n_positions = 0;
};

// Runs one ONNX file. Any thread.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual ValuePtr from_host(Tensor tensor) = 0;
  // `inputs`: exactly the declared ones. Returns the requested outputs, in the executor's memory.
  virtual std::vector<ValuePtr> run(std::span<const NamedValue> inputs, std::span<const Wanted> outputs) = 0;
  // Selects on the device; null if the host should do it.
  virtual ValuePtr select(const DeviceValue& /*value*/, const Selection& /*selection*/) { return nullptr; }
};

}  // namespace kvik::backend

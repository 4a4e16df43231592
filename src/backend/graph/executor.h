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

// An output that is asked for. What the caller reads is made on the host, everything else where the executor likes it best.
struct Wanted {
  std::string_view name;
  bool on_host = false;
};

// Some entries of a value in a new order: `entries` along `axis`, and the first `n_positions` along `position_axis` (-1: no such axis).
struct Selection {
  int axis = 0;
  std::vector<int64_t> entries;
  int position_axis = -1;
  int64_t n_positions = 0;
};

// Runs one ONNX file as a whole. Any thread.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual ValuePtr from_host(Tensor tensor) = 0;
  // Exactly the declared inputs are given; gives the outputs asked for, left where they were made.
  virtual std::vector<ValuePtr> run(std::span<const NamedValue> inputs, std::span<const Wanted> outputs) = 0;
  // Without the host, where the value lies elsewhere; null where the host does it as well.
  virtual ValuePtr select(const DeviceValue& /*value*/, const Selection& /*selection*/) { return nullptr; }
};

}  // namespace kvik::backend

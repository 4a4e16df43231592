#pragma once

#include <mutex>

#include "backend/ort/device.h"

namespace kvik::backend::ort {

// A tensor of the runtime. Immutable; any thread.
class OrtValue : public DeviceValue {
 public:
  explicit OrtValue(ValueHandle value) : value_(std::move(value)) {}
  const Value* handle() const { return value_.get(); }

 protected:
  ValueHandle value_;
};

// Kvik's memory, read by the runtime.
class FedValue final : public OrtValue {
 public:
  FedValue(ValueHandle value, Tensor tensor) : OrtValue(std::move(value)), tensor_(std::move(tensor)) {}
  DType dtype() const override { return tensor_.dtype(); }
  const Dims& dims() const override { return tensor_.dims(); }
  Tensor to_host() const override { return tensor_; }

 private:
  Tensor tensor_;
};

// Memory allocated by the runtime, on the host or a device. Type and shape are queried on demand, because most values are only passed to
// the next step and queries are slow.
class MadeValue final : public OrtValue, public std::enable_shared_from_this<MadeValue> {
 public:
  // `maker`: the model's path, for error messages. `device`: null for the host.
  MadeValue(ValueHandle value, std::shared_ptr<const Library> library, std::string maker, std::shared_ptr<Device> device)
      : OrtValue(std::move(value)), library_(std::move(library)), maker_(std::move(maker)), device_(std::move(device)) {}
  DType dtype() const override { return described().dtype; }
  const Dims& dims() const override { return described().dims; }
  Tensor to_host() const override;

 private:
  struct Description {
    DType dtype = DType::kF32;
    Dims dims;
  };
  const Description& described() const;
  Description describe() const;
  Tensor view(Value* value, std::shared_ptr<const void> owner) const;

  std::shared_ptr<const Library> library_;
  std::string maker_;
  std::shared_ptr<Device> device_;
  mutable std::once_flag asked_;
  mutable Description description_;
};

}  // namespace kvik::backend::ort

#pragma once

#include <mutex>

#include "backend/ort/device.h"

namespace kvik::backend::ort {

// A tensor of the runtime. Immutable, any thread.
class OrtValue : public DeviceValue {
 public:
  explicit OrtValue(ValueHandle value) : value_(std::move(value)) {}
  const Value* handle() const { return value_.get(); }

 protected:
  ValueHandle value_;
};

// Memory of ours that the runtime reads.
class FedValue final : public OrtValue {
 public:
  FedValue(ValueHandle value, Tensor tensor) : OrtValue(std::move(value)), tensor_(std::move(tensor)) {}
  DType dtype() const override { return tensor_.dtype(); }
  const Dims& dims() const override { return tensor_.dims(); }
  Tensor to_host() const override { return tensor_; }

 private:
  Tensor tensor_;
};

// Memory that the runtime made, on the host or elsewhere. Most of it is handed back at the next step unseen, so the runtime is asked
// what it is when somebody wants to know: that takes longer than handing it back.
class MadeValue final : public OrtValue, public std::enable_shared_from_this<MadeValue> {
 public:
  // `maker` is the model's path, for errors; no device is the host.
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

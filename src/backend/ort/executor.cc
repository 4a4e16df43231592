#include "backend/ort/executor.h"

#include "backend/ort/value.h"

namespace kvik::backend::ort {
namespace {

class OrtExecutor final : public Executor {
 public:
  OrtExecutor(std::shared_ptr<const Library> library, const analysis::File& file, const SessionSettings& settings)
      : library_(std::move(library)), session_(library_, settings, file.path) {
    if (session_.on_device()) device_ = std::make_shared<Device>(library_, settings);
  }

  ValuePtr from_host(Tensor tensor) override {
    ValueHandle value = session_.view_of(tensor);
    return std::make_shared<FedValue>(std::move(value), std::move(tensor));
  }

  std::vector<ValuePtr> run(std::span<const NamedValue> inputs, std::span<const Wanted> outputs) override {
    std::vector<BoundInput> bound;
    for (const NamedValue& input : inputs) bound.push_back({input.name, static_cast<const OrtValue&>(*input.value).handle()});
    std::vector<ValueHandle> made = session_.run(bound, outputs);
    std::vector<ValuePtr> result;
    for (size_t i = 0; i < made.size(); ++i) result.push_back(wrap(std::move(made[i]), outputs[i].on_host));
    return result;
  }

  ValuePtr select(const DeviceValue& value, const Selection& selection) override {
    if (device_ == nullptr) return nullptr;
    return wrap(device_->select(static_cast<const OrtValue&>(value).handle(), value.dtype(), selection), false);
  }

 private:
  ValuePtr wrap(ValueHandle value, bool on_host) const {
    return std::make_shared<MadeValue>(std::move(value), library_, session_.name(), on_host ? nullptr : device_);
  }

  std::shared_ptr<const Library> library_;
  OrtSession session_;
  std::shared_ptr<Device> device_;  // null: the host
};

}  // namespace

std::unique_ptr<Executor> open_executor(std::shared_ptr<const Library> library, const analysis::File& file,
                                        const SessionSettings& settings) {
  return std::make_unique<OrtExecutor>(std::move(library), file, settings);
}

}  // namespace kvik::backend::ort

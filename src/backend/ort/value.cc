#include "backend/ort/value.h"

#include <fmt/format.h>

#include "kvik/error.h"

namespace kvik::backend::ort {

const MadeValue::Description& MadeValue::described() const {
  std::call_once(asked_, [this] { description_ = describe(); });
  return description_;
}

MadeValue::Description MadeValue::describe() const {
  const Api& api = library_->api();
  const auto check = [&](Status* status) { library_->check(status, maker_); };
  TensorInfo* raw = nullptr;
  check(api.get_tensor_info(handle(), &raw));
  const TensorInfoHandle info(raw, api.release_tensor_info);
  int type = 0;
  size_t rank = 0;
  check(api.get_element_type(raw, &type));
  check(api.get_dimensions_count(raw, &rank));
  Dims dims(rank);
  check(api.get_dimensions(raw, dims.data(), rank));
  if (type < 1 || type > kLastDType)
    throw Error(Code::kUnsupported, fmt::format("{}: an output has the unknown element type {}", maker_, type));
  return {static_cast<DType>(type), std::move(dims)};
}

Tensor MadeValue::to_host() const {
  // The tensor owns the value whose memory it views.
  if (device_ == nullptr) return view(value_.get(), shared_from_this());
  const auto copied = std::make_shared<ValueHandle>(device_->to_host(value_.get(), dtype()));
  return view(copied->get(), copied);
}

Tensor MadeValue::view(Value* value, std::shared_ptr<const void> owner) const {
  void* data = nullptr;
  library_->check(library_->api().get_tensor_data(value, &data), maker_);
  return Tensor::view(dtype(), dims(), static_cast<const std::byte*>(data), std::move(owner));
}

}  // namespace kvik::backend::ort

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
  if (!on_host_) {
    throw Error(Code::kUnsupported,
                "this cache lives on a device, where it can be extended but not cut or joined; run it on the CPU for that");
  }
  void* data = nullptr;
  library_->check(library_->api().get_tensor_data(value_.get(), &data), maker_);
  // The tensor keeps the value whose memory it shows.
  return Tensor::view(dtype(), dims(), static_cast<const std::byte*>(data), shared_from_this());
}

}  // namespace kvik::backend::ort

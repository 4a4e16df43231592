#pragma once

#include <functional>
#include <memory>

#include "backend/ort/api.h"

// Owning handles to objects of the runtime.
namespace kvik::backend::ort {

template <class T>
using Handle = std::unique_ptr<T, std::function<void(T*)>>;

using SessionHandle = Handle<Session>;
using SessionOptionsHandle = Handle<SessionOptions>;
using MemoryInfoHandle = Handle<MemoryInfo>;
using ValueHandle = Handle<Value>;
using TensorInfoHandle = Handle<TensorInfo>;
using IoBindingHandle = Handle<IoBinding>;
using CudaOptionsHandle = Handle<CudaOptions>;

}  // namespace kvik::backend::ort

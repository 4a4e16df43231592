#pragma once

#include <functional>
#include <memory>

#include "backend/ort/api.h"

// Objects of the runtime that release themselves.
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

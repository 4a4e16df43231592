#include "backend/ort/executor.h"

#include <algorithm>
#include <fmt/format.h>

#include "backend/ort/handles.h"
#include "kvik/error.h"

namespace kvik::backend::ort {
namespace {

// Memory on the host is a tensor; memory elsewhere can only be handed back to the runtime.
class OrtTensor final : public DeviceValue {
 public:
  OrtTensor(ValueHandle value, DType dtype, Dims dims, Tensor host)
      : value_(std::move(value)), dtype_(dtype), dims_(std::move(dims)), host_(std::move(host)) {}

  DType dtype() const override { return dtype_; }
  const Dims& dims() const override { return dims_; }
  Tensor to_host() const override {
    if (host_.defined()) return host_;
    throw Error(Code::kUnsupported,
                "this cache lives on a device, where it can be extended but not cut or joined; run it on the CPU for that");
  }
  const Value* handle() const { return value_.get(); }

 private:
  ValueHandle value_;
  DType dtype_;
  Dims dims_;
  Tensor host_;  // undefined for memory elsewhere
};

class OrtExecutor final : public Executor {
 public:
  OrtExecutor(std::shared_ptr<const Library> library, const analysis::File& file, const SessionSettings& settings)
      : library_(std::move(library)), api_(library_->api()), path_(file.path.string()), on_device_(settings.cuda) {
    SessionOptions* options = nullptr;
    check(api_.create_session_options(&options));
    const SessionOptionsHandle owned(options, api_.release_session_options);
    check(api_.set_log_severity(options, static_cast<int>(LoggingLevel::kFatal)));
    if (settings.n_threads > 0) check(api_.set_intra_threads(options, settings.n_threads));
    if (settings.cuda) append_cuda(options);
    Session* session = nullptr;
    check(api_.create_session(library_->env(), path_.c_str(), options, &session));
    session_ = SessionHandle(session, api_.release_session);
    MemoryInfo* memory = nullptr;
    check(api_.create_cpu_memory_info(AllocatorType::kArena, MemoryType::kDefault, &memory));
    host_memory_ = MemoryInfoHandle(memory, api_.release_memory_info);
    if (!settings.cuda) return;
    check(api_.create_memory_info("Cuda", AllocatorType::kArena, 0, MemoryType::kDefault, &memory));
    device_memory_ = MemoryInfoHandle(memory, api_.release_memory_info);
  }

  ValuePtr from_host(Tensor tensor) override {
    // The runtime never writes to inputs, so a shared or mapped tensor is safe behind the non-const pointer it wants.
    void* data = const_cast<std::byte*>(tensor.bytes().data());
    Value* value = nullptr;
    check(api_.create_tensor_with_data(host_memory_.get(), data, tensor.size_bytes(), tensor.dims().data(), tensor.dims().size(),
                                       static_cast<int>(tensor.dtype()), &value));
    return std::make_shared<OrtTensor>(ValueHandle(value, api_.release_value), tensor.dtype(), tensor.dims(), tensor);
  }

  std::vector<ValuePtr> run(std::span<const NamedValue> inputs, std::span<const std::string_view> outputs) override {
    IoBinding* raw = nullptr;
    check(api_.create_io_binding(session_.get(), &raw));
    const IoBindingHandle binding(raw, api_.release_io_binding);
    for (const NamedValue& input : inputs) {
      check(api_.bind_input(raw, std::string(input.name).c_str(), static_cast<const OrtTensor&>(*input.value).handle()));
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      const MemoryInfo* memory = on_device_ && i > 0 ? device_memory_.get() : host_memory_.get();
      check(api_.bind_output_to_device(raw, std::string(outputs[i]).c_str(), memory));
    }
    check(api_.run_with_binding(session_.get(), nullptr, raw));
    return bound_outputs(raw);
  }

 private:
  void check(Status* status) const { library_->check(status, path_); }

  void append_cuda(SessionOptions* options) const {
    CudaOptions* cuda = nullptr;
    check(api_.create_cuda_options(&cuda));
    const CudaOptionsHandle owned(cuda, api_.release_cuda_options);
    check(api_.append_cuda(options, cuda));
  }

  std::vector<ValuePtr> bound_outputs(const IoBinding* binding) const {
    Allocator* allocator = nullptr;
    check(api_.default_allocator(&allocator));
    Value** values = nullptr;
    size_t n_values = 0;
    check(api_.get_bound_output_values(binding, allocator, &values, &n_values));
    std::vector<ValueHandle> owned;
    for (size_t i = 0; i < n_values; ++i) owned.emplace_back(values[i], api_.release_value);
    check(api_.allocator_free(allocator, values));
    std::vector<ValuePtr> result;
    for (size_t i = 0; i < owned.size(); ++i) result.push_back(wrap(std::move(owned[i]), !on_device_ || i == 0));
    return result;
  }

  ValuePtr wrap(ValueHandle value, bool on_host) const {
    TensorInfo* raw = nullptr;
    check(api_.get_tensor_info(value.get(), &raw));
    const TensorInfoHandle info(raw, api_.release_tensor_info);
    int type = 0;
    size_t rank = 0;
    check(api_.get_element_type(raw, &type));
    check(api_.get_dimensions_count(raw, &rank));
    Dims dims(rank);
    check(api_.get_dimensions(raw, dims.data(), rank));
    if (type < 1 || type > kLastDType)
      throw Error(Code::kUnsupported, fmt::format("{}: an output has the unknown element type {}", path_, type));
    const auto dtype = static_cast<DType>(type);
    if (!on_host) return std::make_shared<OrtTensor>(std::move(value), dtype, std::move(dims), Tensor());
    void* data = nullptr;
    check(api_.get_tensor_data(value.get(), &data));
    // The tensor and the value share the memory; whoever lives longer keeps it.
    const auto shared = std::make_shared<ValueHandle>(std::move(value));
    Tensor host = Tensor::view(dtype, dims, static_cast<const std::byte*>(data), shared);
    return std::make_shared<OrtTensor>(ValueHandle(shared->get(), [](Value*) {}), dtype, std::move(dims), std::move(host));
  }

  std::shared_ptr<const Library> library_;
  const Api& api_;
  std::string path_;
  bool on_device_;
  SessionHandle session_;
  MemoryInfoHandle host_memory_, device_memory_;
};

}  // namespace

std::unique_ptr<Executor> open_executor(std::shared_ptr<const Library> library, const analysis::File& file,
                                        const SessionSettings& settings) {
  return std::make_unique<OrtExecutor>(std::move(library), file, settings);
}

}  // namespace kvik::backend::ort

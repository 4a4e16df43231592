#include "backend/ort/executor.h"

#include "backend/ort/value.h"

namespace kvik::backend::ort {
namespace {

class OrtExecutor final : public Executor {
 public:
  OrtExecutor(std::shared_ptr<const Library> library, const analysis::File& file, const SessionSettings& settings)
      : library_(std::move(library)), api_(library_->api()), path_(file.path.string()), on_device_(settings.cuda) {
    SessionOptions* options = nullptr;
    check(api_.create_session_options(&options));
    const SessionOptionsHandle owned(options, api_.release_session_options);
    check(api_.set_log_severity(options, static_cast<int>(LoggingLevel::kFatal)));
    if (settings.n_threads > 0) check(api_.set_intra_threads(options, settings.n_threads));
    // Threads wait in a busy loop within a run, not after it: there they would take the cores from the other files' sessions and from
    // the search between two steps.
    check(api_.add_session_config(options, "session.force_spinning_stop", "1"));
    // A pattern of allocations is remembered for every shape of the inputs, and each step of a growing cache has a shape of its own.
    check(api_.disable_memory_pattern(options));
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
    return std::make_shared<FedValue>(ValueHandle(value, api_.release_value), std::move(tensor));
  }

  std::vector<ValuePtr> run(std::span<const NamedValue> inputs, std::span<const std::string_view> outputs) override {
    IoBinding* raw = nullptr;
    check(api_.create_io_binding(session_.get(), &raw));
    const IoBindingHandle binding(raw, api_.release_io_binding);
    for (const NamedValue& input : inputs) {
      check(api_.bind_input(raw, std::string(input.name).c_str(), static_cast<const OrtValue&>(*input.value).handle()));
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
    for (size_t i = 0; i < owned.size(); ++i)
      result.push_back(std::make_shared<MadeValue>(std::move(owned[i]), library_, path_, !on_device_ || i == 0));
    return result;
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

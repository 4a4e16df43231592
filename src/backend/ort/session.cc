#include "backend/ort/session.h"

namespace kvik::backend::ort {

OrtSession::OrtSession(std::shared_ptr<const Library> library, std::string name)
    : library_(std::move(library)), api_(library_->api()), name_(std::move(name)) {
  MemoryInfo* memory = nullptr;
  check(api_.create_cpu_memory_info(AllocatorType::kArena, MemoryType::kDefault, &memory));
  host_memory_ = MemoryInfoHandle(memory, api_.release_memory_info);
}

OrtSession::OrtSession(std::shared_ptr<const Library> library, const SessionSettings& settings, const std::filesystem::path& file)
    : OrtSession(std::move(library), file.string()) {
  open(settings, [&](const SessionOptions* options, Session** session) {
    return api_.create_session(library_->env(), file.c_str(), options, session);
  });
}

OrtSession::OrtSession(std::shared_ptr<const Library> library, const SessionSettings& settings, std::string_view model, std::string name)
    : OrtSession(std::move(library), std::move(name)) {
  open(settings, [&](const SessionOptions* options, Session** session) {
    return api_.create_session_from_array(library_->env(), model.data(), model.size(), options, session);
  });
}

template <class Create>
void OrtSession::open(const SessionSettings& settings, const Create& create) {
  const SessionOptionsHandle options = options_of(settings);
  Session* session = nullptr;
  check(create(options.get(), &session));
  session_ = SessionHandle(session, api_.release_session);
}

SessionOptionsHandle OrtSession::options_of(const SessionSettings& settings) {
  SessionOptions* raw = nullptr;
  check(api_.create_session_options(&raw));
  SessionOptionsHandle options(raw, api_.release_session_options);
  check(api_.set_log_severity(raw, static_cast<int>(LoggingLevel::kFatal)));
  if (settings.n_threads > 0) check(api_.set_intra_threads(raw, settings.n_threads));
  // Threads spin within a run but not after it, where they would take cores from other sessions and from sampling.
  check(api_.add_session_config(raw, "session.force_spinning_stop", "1"));
  // Products with dequantized weights are computed in f32; by default the runtime may quantize the rows to 8 bits.
  check(api_.add_session_config(raw, "session.qdq_matmulnbits_accuracy_level", "1"));
  // Memory patterns are cached per input shape, and with a growing cache every step has a new shape.
  check(api_.disable_memory_pattern(raw));
  if (library_->has_huge_pages()) check(api_.add_session_config(raw, "session.use_env_allocators", "1"));
  if (!settings.cuda) return options;
  CudaOptions* cuda = nullptr;
  check(api_.create_cuda_options(&cuda));
  const CudaOptionsHandle owned(cuda, api_.release_cuda_options);
  // Without this the provider computes f32 products in TF32. Older runtimes do not have the option.
  const char* const key = "use_tf32";
  const char* const value = "0";
  if (Status* unknown = api_.update_cuda_options(cuda, &key, &value, 1)) api_.release_status(unknown);
  check(api_.append_cuda(raw, cuda));
  MemoryInfo* memory = nullptr;
  check(api_.create_memory_info("Cuda", AllocatorType::kArena, 0, MemoryType::kDefault, &memory));
  device_memory_ = MemoryInfoHandle(memory, api_.release_memory_info);
  return options;
}

ValueHandle OrtSession::view_of(const Tensor& tensor) const {
  // The runtime never writes to inputs, so const_cast is safe for shared and mapped tensors.
  void* data = const_cast<std::byte*>(tensor.bytes().data());
  Value* value = nullptr;
  check(api_.create_tensor_with_data(host_memory_.get(), data, tensor.size_bytes(), tensor.dims().data(), tensor.dims().size(),
                                     static_cast<int>(tensor.dtype()), &value));
  return {value, api_.release_value};
}

std::vector<ValueHandle> OrtSession::run(std::span<const BoundInput> inputs, std::span<const Wanted> outputs) const {
  IoBinding* raw = nullptr;
  check(api_.create_io_binding(session_.get(), &raw));
  const IoBindingHandle binding(raw, api_.release_io_binding);
  for (const BoundInput& input : inputs) check(api_.bind_input(raw, std::string(input.name).c_str(), input.value));
  for (const Wanted& output : outputs) {
    const MemoryInfo* memory = on_device() && !output.on_host ? device_memory_.get() : host_memory_.get();
    check(api_.bind_output_to_device(raw, std::string(output.name).c_str(), memory));
  }
  check(api_.run_with_binding(session_.get(), nullptr, raw));

  Allocator* allocator = nullptr;
  check(api_.default_allocator(&allocator));
  Value** values = nullptr;
  size_t n_values = 0;
  check(api_.get_bound_output_values(raw, allocator, &values, &n_values));
  std::vector<ValueHandle> result;
  for (size_t i = 0; i < n_values; ++i) result.emplace_back(values[i], api_.release_value);
  check(api_.allocator_free(allocator, values));
  return result;
}

}  // namespace kvik::backend::ort

#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "backend/graph/executor.h"
#include "backend/ort/handles.h"
#include "backend/ort/library.h"

namespace kvik::backend::ort {

struct SessionSettings {
  int n_threads = 0;  // 0: the runtime's default
  bool cuda = false;  // requested and available
};

struct BoundInput {
  std::string_view name;
  const Value* value = nullptr;
};

// A model loaded by the runtime. Any thread.
class OrtSession {
 public:
  OrtSession(std::shared_ptr<const Library> library, const SessionSettings& settings, const std::filesystem::path& file);
  // `model`: the bytes of an ONNX file; `name`: for error messages.
  OrtSession(std::shared_ptr<const Library> library, const SessionSettings& settings, std::string_view model, std::string name);

  const std::string& name() const { return name_; }
  bool on_device() const { return device_memory_ != nullptr; }
  // A value that views a tensor, which must outlive it.
  ValueHandle view_of(const Tensor& tensor) const;
  // Only outputs wanted on the host are copied from a device.
  std::vector<ValueHandle> run(std::span<const BoundInput> inputs, std::span<const Wanted> outputs) const;

 private:
  OrtSession(std::shared_ptr<const Library> library, std::string name);
  template <class Create>  // (options, session) -> status
  void open(const SessionSettings& settings, const Create& create);
  SessionOptionsHandle options_of(const SessionSettings& settings);
  void check(Status* status) const { library_->check(status, name_); }

  std::shared_ptr<const Library> library_;
  const Api& api_;
  std::string name_;
  SessionHandle session_;
  MemoryInfoHandle host_memory_, device_memory_;
};

}  // namespace kvik::backend::ort

#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "backend/graph/executor.h"
#include "backend/ort/handles.h"
#include "backend/ort/library.h"

namespace kvik::backend::ort {

struct SessionSettings {
  int n_threads = 0;  // 0: the runtime's own choice
  bool cuda = false;  // asked for and there
};

struct BoundInput {
  std::string_view name;
  const Value* value = nullptr;
};

// A model that the runtime has loaded. Any thread.
class OrtSession {
 public:
  OrtSession(std::shared_ptr<const Library> library, const SessionSettings& settings, const std::filesystem::path& file);
  // `model` holds the bytes of an ONNX file; `name` stands in errors.
  OrtSession(std::shared_ptr<const Library> library, const SessionSettings& settings, std::string_view model, std::string name);

  const std::string& name() const { return name_; }
  bool on_device() const { return device_memory_ != nullptr; }
  // Shows the runtime a tensor, which must outlive the value.
  ValueHandle view_of(const Tensor& tensor) const;
  // On a device, only what is wanted on the host is brought there.
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

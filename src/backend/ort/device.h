#pragma once

#include <map>
#include <mutex>

#include "backend/ort/session.h"

namespace kvik::backend::ort {

// Operations on device values, implemented as small ONNX models that are loaded on first use. Any thread.
class Device {
 public:
  Device(std::shared_ptr<const Library> library, const SessionSettings& settings) : library_(std::move(library)), settings_(settings) {}

  ValueHandle to_host(const Value* value, DType dtype);
  ValueHandle select(const Value* value, DType dtype, const Selection& selection);

 private:
  const OrtSession& session_of(const std::string& model);

  std::shared_ptr<const Library> library_;
  SessionSettings settings_;
  std::mutex mutex_;
  std::map<std::string, OrtSession> sessions_;  // by the bytes of their models
};

}  // namespace kvik::backend::ort

#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "model.h"

namespace kvik::python {

// A generation that the thread which reads it computes. Threads that read generations of one model share its runs.
class GenerationHandle {
 public:
  // Computes the prompt. `session` may be null.
  GenerationHandle(const ModelHandle& model, std::shared_ptr<SharedSession> session, std::span<const TokenId> prompt, nb::object progress,
                   const nb::kwargs& given);
  GenerationHandle(const GenerationHandle&) = delete;
  GenerationHandle& operator=(const GenerationHandle&) = delete;
  ~GenerationHandle();

  std::optional<std::string_view> next();  // never empty; valid until the next call
  const Generation& generation() const { return *generation_; }

 private:
  Call call_;
  std::shared_ptr<SharedSession> session_;  // that it continues
  std::optional<Generation> generation_;
  std::atomic<bool> in_use_{false};
};

}  // namespace kvik::python

#pragma once

#include "engine/work.h"

namespace kvik::api {

// A call of Model::translate(), transcribe(), embed() or score(), run by the calling thread or by an engine.
template <class Result>
class Call {
 public:
  virtual ~Call() = default;
  virtual engine::Work& work() = 0;
  virtual std::function<bool()> cancelled() const = 0;  // of the caller's options; may be empty
  // After the last part, or what there is if it was cancelled before. Once.
  virtual Result result(bool cancelled) = 0;
};

}  // namespace kvik::api

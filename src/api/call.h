#pragma once

#include "engine/work.h"

namespace kvik::api {

// One call of Model::translate(), transcribe(), embed() or score(), executed by the calling thread or by an engine.
template <class Result>
class Call {
 public:
  virtual ~Call() = default;
  virtual engine::Work& work() = 0;
  virtual std::function<bool()> cancelled() const = 0;  // of the caller's options; may be empty
  // Called once, after the last part; partial if it was cancelled.
  virtual Result result(bool cancelled) = 0;
};

}  // namespace kvik::api

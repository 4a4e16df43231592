#pragma once

#include <map>
#include <string>
#include <utility>
#include <variant>

#include "backend/native/graph/axes.h"
#include "backend/native/graph/refusal.h"

// What a stage of the compiler returns. Functions inside a stage return Expected<T>: all they can do is refuse.
namespace kvik::native {

// The graph computes one thing for sequences of up to `length` tokens and another for longer ones. Each may well be a program.
struct Switch {
  int64_t length = 0;
  Refusal refusal;  // if no second program is compiled
};

// What one attempt learned about a graph and the next one starts from. Hints are only ever added.
struct Hints {
  std::map<onnx::ValueId, Axes> past_axes;  // of past inputs whose axes the file does not declare: what is appended tells them
  bool keys_on_left = false;                // of a product of rows with rows, in a graph without a past
};

// A stage learned something that must be known from the start: begin again with these hints. Only compile.cc does.
struct Retry {
  Hints hints;
};

using Stop = std::variant<Refusal, Switch, Retry>;

// A result, or why there is none.
template <class T>
class [[nodiscard]] Outcome {
 public:
  Outcome(T value) : data_(std::move(value)) {}
  Outcome(Expected<T> expected) {
    if (expected) data_ = std::move(*expected);
    if (!expected) data_ = std::move(expected).refusal();
  }
  Outcome(Refusal refusal) : data_(std::move(refusal)) {}
  Outcome(Switch change) : data_(std::move(change)) {}
  Outcome(Retry retry) : data_(std::move(retry)) {}
  Outcome(Stop stop) {
    std::visit([&](auto& why) { data_ = std::move(why); }, stop);
  }

  explicit operator bool() const { return std::holds_alternative<T>(data_); }
  T& operator*() { return std::get<T>(data_); }
  const T& operator*() const { return std::get<T>(data_); }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }

  const Refusal* refusal() const { return std::get_if<Refusal>(&data_); }
  const Switch* length_switch() const { return std::get_if<Switch>(&data_); }
  const Retry* retry() const { return std::get_if<Retry>(&data_); }

  // Of an outcome without a result.
  Stop stop() const {
    if (retry() != nullptr) return *retry();
    if (length_switch() != nullptr) return *length_switch();
    return std::get<Refusal>(data_);
  }
  // For people.
  std::string sentence() const {
    if (retry() != nullptr) return "what is known of its past changes with every attempt";
    return length_switch() != nullptr ? length_switch()->refusal.sentence() : refusal()->sentence();
  }

 private:
  std::variant<T, Refusal, Switch, Retry> data_ = Refusal{};
};

// What `work` returns: an outcome, or a refusal if the file turns out to be broken on the way (the reader or a kernel throws). The backend
// that is tried next then says so itself. A bad argument is the caller's, and thrown on.
template <class Work>
auto refuse_broken(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const Error& error) {
    if (error.code() == Code::kBadArgument) throw;
    return Refusal{{}, error.what()};
  }
}

// The result, for callers that do not handle a refusal. Throws Error(kUnsupported) with the sentence otherwise.
template <class T>
T take(Outcome<T> outcome) {
  if (!outcome) throw Error(Code::kUnsupported, outcome.sentence());
  return std::move(*outcome);
}

}  // namespace kvik::native

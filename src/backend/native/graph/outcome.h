#pragma once

#include <map>
#include <string>
#include <utility>
#include <variant>

#include "backend/native/graph/axes.h"
#include "backend/native/graph/refusal.h"

// The result of a stage of the compiler. Functions within a stage return Expected<T>, because they can only refuse.
namespace kvik::native {

// The graph computes different functions for sequences of up to `length` tokens and for longer ones. Each may compile to a program.
struct Switch {
  int64_t length = 0;
  Refusal refusal;  // if no second program is compiled
};

// Facts about a graph that one attempt finds and the next one starts from. Hints are never removed.
struct Hints {
  std::map<onnx::ValueId, Axes> past_axes;  // axes of past inputs that the file does not declare, inferred from what is appended
  bool keys_on_left = false;                // of a product of rows with rows, in a graph without a past
};

// A stage found a fact that must be known from the start: compile again with these hints. Only compile.cc does this.
struct Retry {
  Hints hints;
};

using Stop = std::variant<Refusal, Switch, Retry>;

// A result, or the reason why there is none.
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

  // For an outcome without a result.
  Stop stop() const {
    if (retry() != nullptr) return *retry();
    if (length_switch() != nullptr) return *length_switch();
    return std::get<Refusal>(data_);
  }
  // For display.
  std::string sentence() const {
    if (retry() != nullptr) return "what is known of its past changes with every attempt";
    return length_switch() != nullptr ? length_switch()->refusal.sentence() : refusal()->sentence();
  }

 private:
  std::variant<T, Refusal, Switch, Retry> data_ = Refusal{};
};

// Returns the outcome of `work`, or a refusal if the file is broken (the reader or a kernel throws): the next backend then reports it.
// Errors about bad arguments are rethrown.
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

#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "kvik/error.h"
#include "onnx/graph.h"

// How the functions of a stage refuse: by returning it. Nothing here is an error: errors are for broken files and bad arguments.
//
//   Expected<Axes> swapped(NodeLabeler& op) {
//     KVIK_TRY(Axes axes, op.axes(0));                        // declares `axes`, or returns the refusal of op.axes(0)
//     KVIK_CHECK(require_features(op, {0, 1}));               // the same of a call that gives nothing
//     if (axes.size() < 2) return op.refuse("has no matrix");
//     std::swap(axes[0], axes[1]);
//     return axes;
//   }
//
// Both macros are statements, so neither can be used inside an expression. A result that is neither read nor returned is a compiler
// warning.
namespace kvik::native {

// The graph is valid, but the compiler cannot prove that it is a program over rows. Another backend may still run it.
struct [[nodiscard]] Refusal {
  std::string node;  // "node 'name' (Op)"; empty: an input, an output or the whole file
  std::string reason;

  std::string sentence() const { return node.empty() ? reason : node + ": " + reason; }
  // Sets the node, if none is set.
  Refusal about(const onnx::Node& here) && {
    if (node.empty()) node = here.describe();
    return std::move(*this);
  }
};

inline Refusal refuse(std::string reason) { return {.node = {}, .reason = std::move(reason)}; }
inline Refusal refuse(const onnx::Node& node, std::string reason) { return {.node = node.describe(), .reason = std::move(reason)}; }

// A result, or the refusal.
template <class T = void>
class [[nodiscard]] Expected {
 public:
  template <class U = T>
  requires std::convertible_to<U, T> Expected(U&& value) : data_(std::in_place_index<0>, std::forward<U>(value)) {}
  Expected(Refusal refusal) : data_(std::in_place_index<1>, std::move(refusal)) {}

  explicit operator bool() const { return data_.index() == 0; }
  T& operator*() { return std::get<0>(data_); }
  const T& operator*() const { return std::get<0>(data_); }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }

  // For one without a result.
  const Refusal& refusal() const& { return std::get<1>(data_); }
  Refusal refusal() && { return std::move(std::get<1>(data_)); }

 private:
  std::variant<T, Refusal> data_;
};

// For functions without a result; `return {}` is success.
template <>
class [[nodiscard]] Expected<void> {
 public:
  Expected() = default;
  Expected(Refusal refusal) : refusal_(std::move(refusal)) {}

  explicit operator bool() const { return !refusal_.has_value(); }
  const Refusal& refusal() const& { return *refusal_; }
  Refusal refusal() && { return std::move(*refusal_); }

 private:
  std::optional<Refusal> refusal_;
};

// The result, for callers that do not handle a refusal. Throws Error(kUnsupported) with its sentence otherwise.
template <class T>
T take(Expected<T> expected) {
  if (!expected) throw Error(Code::kUnsupported, expected.refusal().sentence());
  return std::move(*expected);
}

}  // namespace kvik::native

#define KVIK_JOIN_TOKENS(a, b) a##b
#define KVIK_JOIN(a, b) KVIK_JOIN_TOKENS(a, b)

// See above.
#define KVIK_TRY(declaration, ...)                                                                           \
  auto KVIK_JOIN(kvik_expected_, __LINE__) = (__VA_ARGS__);                                                  \
  if (!KVIK_JOIN(kvik_expected_, __LINE__)) return std::move(KVIK_JOIN(kvik_expected_, __LINE__)).refusal(); \
  declaration = std::move(*KVIK_JOIN(kvik_expected_, __LINE__))

#define KVIK_CHECK(...)                                                                               \
  do {                                                                                                \
    if (auto KVIK_JOIN(kvik_checked_, __LINE__) = (__VA_ARGS__); !KVIK_JOIN(kvik_checked_, __LINE__)) \
      return std::move(KVIK_JOIN(kvik_checked_, __LINE__)).refusal();                                 \
  } while (false)

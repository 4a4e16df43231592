#pragma once

#include <optional>

#include "backend/native/graph/outcome.h"

// Refusing from the depth of a rule. A rule asks for axes, sizes and evaluated numbers many calls deep, and each of them may end it; so
// inside a stage a refusal is an exception, of a type that nobody else throws, and outcome_of() is the one function that catches it. Every
// stage calls its work through outcome_of(), so that nothing of this is seen outside.
namespace kvik::native {

// Thrown by refuse() alone, caught by outcome_of() alone.
class Refused : public Error {
 public:
  explicit Refused(Refusal why) : Error(Code::kUnsupported, why.sentence()), refusal(std::move(why)) {}
  Refusal refusal;
};

[[noreturn]] inline void refuse(std::string reason) { throw Refused({.node = {}, .reason = std::move(reason)}); }
[[noreturn]] inline void refuse(const onnx::Node& node, std::string reason) {
  throw Refused({.node = node.describe(), .reason = std::move(reason)});
}

[[noreturn]] inline void refuse(Refusal refusal) { throw Refused(std::move(refusal)); }

// What `work` returns, or its refusal, which is about `node` if it names no other. A graph that the evaluator fails on is refused too.
template <class Work>
auto outcome_of(const onnx::Node* node, const Work& work) -> Outcome<decltype(work())> {
  const auto about = [&](Refusal refusal) {
    if (refusal.node.empty() && node != nullptr) refusal.node = node->describe();
    return refusal;
  };
  try {
    return work();
  } catch (const Refused& refused) { return about(refused.refusal); } catch (const Error& error) {
    if (error.code() == Code::kBadArgument) throw;
    return about({.node = {}, .reason = error.what()});
  }
}

// The same for work that returns nothing.
template <class Work>
std::optional<Refusal> refusal_of(const onnx::Node* node, const Work& work) {
  const auto outcome = outcome_of(node, [&] { return work(), true; });
  return outcome ? std::nullopt : std::optional(*outcome.refusal());
}

}  // namespace kvik::native

#pragma once

#include "text/template/interpreter.h"

namespace kvik::text::jinja {

// A running loop, and the variable `loop` in its body.
class Loop final : public Object {
 public:
  Loop(Interpreter& interpreter, const ForStmt& stmt, ScopePtr closure, Value iterable, int depth0);
  // `test_scope`: for the `if` of the loop; null if it has none.
  void start(Runtime& runtime, ScopePtr test_scope);
  std::optional<Value> advance();

  std::string_view type_name() const override { return "LoopContext"; }
  std::string repr(Runtime& runtime) override;
  bool is_callable() const override { return true; }
  Value call(Runtime& runtime, Args args) override;
  std::optional<int64_t> length(Runtime& runtime) override;
  std::optional<Value> attribute(Runtime& runtime, const Value& self, std::string_view name) override;

  Value cycle(const Args& args) const;
  bool changed(Runtime& runtime, const Args& args);

 private:
  const std::optional<Value>& peek();

  Interpreter& interpreter_;
  const ForStmt& stmt_;
  ScopePtr closure_;
  Value iterable_;
  std::unique_ptr<Iterator> source_;
  int depth0_;
  int64_t index0_ = -1;
  std::optional<int64_t> length_;
  std::optional<Value> before_, current_, after_;
  bool has_peeked_ = false;
  std::optional<Value> last_changed_;
};

// {% macro %}, and the body of a call block as `caller`.
class Macro final : public Object {
 public:
  Macro(Interpreter& interpreter, const MacroShape& shape, ScopePtr closure)
      : interpreter_(interpreter), shape_(shape), closure_(std::move(closure)) {}

  std::string_view type_name() const override { return "Macro"; }
  std::string repr(Runtime& runtime) override;
  bool is_callable() const override { return true; }
  Value call(Runtime&, Args args) override { return interpreter_.call_macro(shape_, closure_, std::move(args)); }
  std::optional<Value> attribute(Runtime& runtime, const Value& self, std::string_view name) override;

 private:
  Interpreter& interpreter_;
  const MacroShape& shape_;
  ScopePtr closure_;
};

}  // namespace kvik::text::jinja

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/template/ast.h"
#include "text/template/runtime.h"

namespace kvik::text::jinja {

// The variables of one frame while it runs. Cleared at the end of the frame, which also breaks reference cycles through macros.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<Value> slots;
};
using ScopePtr = std::shared_ptr<Scope>;

// Executes a program once. Expressions are in eval.cc, statements in interpreter.cc, macros and calls in call.cc.
class Interpreter {
 public:
  Interpreter(Runtime& runtime, const Program& program, const Dict& variables)
      : runtime_(runtime), program_(program), variables_(variables) {}

  std::string run();

  // For macros and recursive loops, which keep the scope that they were created in.
  Value call_macro(const MacroShape& macro, const ScopePtr& closure, Args args);
  Value run_recursively(const ForStmt& stmt, const ScopePtr& closure, const Value& iterable, int depth0);
  // For the `if` of a loop: returns the item, as assigned to the target, if the test is true.
  std::optional<Value> test_item(const ForStmt& stmt, const ScopePtr& scope, const Value& item);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // A running frame; clears its scope at the end, also on an exception.
  class Entered {
   public:
    Entered(Interpreter& interpreter, const Frame& frame, ScopePtr parent);
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;
    ~Entered();
    const ScopePtr& scope() const { return scope_; }

   private:
    ScopePtr scope_;
  };

  // One more level of the C++ stack, which a deep expression in a deep recursion must not exhaust.
  class Deeper {
   public:
    explicit Deeper(Interpreter& interpreter) : interpreter_(interpreter) {
      if (++interpreter.depth_ > kMaxStackDepth) interpreter.fail_too_deep();
    }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    ~Deeper() { --interpreter_.depth_; }

   private:
    Interpreter& interpreter_;
  };

  // Captures output in a separate string.
  class Capture {
   public:
    explicit Capture(Interpreter& interpreter) : interpreter_(interpreter), outer_(interpreter.output_) { interpreter.output_ = &text_; }
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;
    ~Capture();
    // Ends the capture.
    std::string take();

   private:
    Interpreter& interpreter_;
    std::string* outer_;
    std::string text_;
  };

  // interpreter.cc
  [[noreturn]] void fail_too_deep();
  void start(const Frame& frame, const ScopePtr& scope);
  Value look_up(const std::string& name);
  Flow execute(const Body& body, const ScopePtr& scope);
  Flow execute(const Stmt& stmt, const ScopePtr& scope);
  Flow dispatch(const Stmt& stmt, const ScopePtr& scope);
  Flow execute_if(const IfStmt& stmt, const ScopePtr& scope);
  Flow execute_for(const ForStmt& stmt, const ScopePtr& scope, const Value& iterable, int depth0);
  Flow execute_set_block(const SetBlockStmt& stmt, const ScopePtr& scope);
  Flow execute_filter_block(const FilterBlockStmt& stmt, const ScopePtr& scope);
  Flow execute_with(const WithStmt& stmt, const ScopePtr& scope);
  void execute_call_block(const CallBlockStmt& stmt, const ScopePtr& scope);
  void print(const Value& value);
  void print_text(std::string_view text);
  void check_namespaces(const Expr& target, Scope& scope);
  void assign(const Expr& target, Value value, Scope& scope);
  void unpack(const ItemsExpr& targets, const Value& value, Scope& scope);
  Value read_target(const Expr& target, Scope& scope);

  // eval.cc
  Value eval(const Expr& expr, const ScopePtr& scope);
  Value eval_name(const NameExpr& expr, const ScopePtr& scope);
  Value eval_dict(const ItemsExpr& expr, const ScopePtr& scope);
  Value eval_concat(const ItemsExpr& expr, const ScopePtr& scope);
  Value eval_unary(const UnaryExpr& expr, const ScopePtr& scope);
  Value eval_compare(const CompareExpr& expr, const ScopePtr& scope);
  Value eval_conditional(const ConditionalExpr& expr, const ScopePtr& scope);
  Value eval_slice(const SliceExpr& expr, const ScopePtr& scope);
  Value eval_filter(const FilterExpr& expr, const ScopePtr& scope, const Value* start);
  Value eval_test(const TestExpr& expr, const ScopePtr& scope);
  std::vector<Value> eval_all(const std::vector<ExprPtr>& exprs, const ScopePtr& scope);

  // call.cc
  Value eval_call(const CallExpr& expr, const ScopePtr& scope, const Value* caller = nullptr);
  Args eval_args(const CallArgs& args, const ScopePtr& scope);
  void spread_named(Args& args, const Value& mapping);
  void bind_parameters(const MacroShape& macro, const ScopePtr& scope, Args args);

  static Value& slot(Scope& scope, Place place);

  Runtime& runtime_;
  const Program& program_;
  const Dict& variables_;
  ScopePtr root_;
  std::string* output_ = nullptr;
  size_t captured_bytes_ = 0;  // in all active captures
  int depth_ = 0;
  int line_ = 0;  // of the expression evaluated last, for error messages
};

}  // namespace kvik::text::jinja

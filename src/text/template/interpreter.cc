#include "text/template/interpreter.h"

#include "text/template/loop.h"
#include "text/template/namespace.h"
#include "text/template/print.h"

namespace kvik::text::jinja {

Interpreter::Entered::Entered(Interpreter& interpreter, const Frame& frame, ScopePtr parent)
    : scope_(std::make_shared<Scope>(Scope{std::move(parent), {}})) {
  interpreter.start(frame, scope_);
}

Interpreter::Entered::~Entered() {
  const std::vector<Value> values = std::move(scope_->slots);
  scope_->slots.assign(values.size(), Value());
}

Interpreter::Capture::~Capture() {
  if (interpreter_.output_ == &text_) take();
}

std::string Interpreter::Capture::take() {
  interpreter_.output_ = outer_;
  interpreter_.captured_bytes_ -= text_.size();
  return std::move(text_);
}

void Interpreter::fail_too_deep() {
  --depth_;  // undo the refused level
  throw Fault(Code::kTooLarge, fmt::format("the template nests what it evaluates more than {} deep", kMaxStackDepth));
}

std::string Interpreter::run() {
  Capture capture(*this);
  const Entered root(*this, program_.frame, nullptr);
  root_ = root.scope();
  execute(program_.body, root.scope());
  return capture.take();
}

Value& Interpreter::slot(Scope& scope, Place place) {
  Scope* at = &scope;
  for (int up = place.up; up > 0; --up) at = at->parent.get();
  return at->slots[static_cast<size_t>(place.slot)];
}

void Interpreter::start(const Frame& frame, const ScopePtr& scope) {
  scope->slots.resize(static_cast<size_t>(frame.n_slots));
  for (const Load& load : frame.loads) {
    Value& value = scope->slots[static_cast<size_t>(load.slot)];
    if (load.kind == LoadKind::kResolve) value = look_up(load.name);
    if (load.kind == LoadKind::kAlias) value = slot(*scope, load.from);
    if (load.kind == LoadKind::kUnset) value = Value();
  }
}

// A name that no scope sets: first what the template has set at its outermost level (for blocks only), then the input variables.
Value Interpreter::look_up(const std::string& name) {
  runtime_.step();
  if (root_ != nullptr) {
    const auto it = program_.exported.find(name);
    if (it != program_.exported.end() && !root_->slots[static_cast<size_t>(it->second)].is(Kind::kMissing))
      return root_->slots[static_cast<size_t>(it->second)];
  }
  if (const Value* value = variables_.find(name)) return *value;
  return find_global(runtime_, name).value_or(Value());
}

Interpreter::Flow Interpreter::execute(const Body& body, const ScopePtr& scope) {
  for (const StmtPtr& stmt : body)
    if (const Flow flow = execute(*stmt, scope); flow != Flow::kNext) return flow;
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Stmt& stmt, const ScopePtr& scope) {
  const Deeper deeper(*this);
  runtime_.step();
  line_ = stmt.line;
  try {
    return dispatch(stmt, scope);
  } catch (const Fault& fault) {
    if (fault.is_final()) throw;
    throw Fault(fault.code(), fmt::format("template line {}: {}", line_, fault.what()), true);
  }
}

Interpreter::Flow Interpreter::dispatch(const Stmt& stmt, const ScopePtr& scope) {
  switch (stmt.type) {
    case StmtType::kOutput:
      for (const ExprPtr& part : static_cast<const OutputStmt&>(stmt).parts) print(eval(*part, scope));
      return Flow::kNext;
    case StmtType::kFor: {
      const auto& loop = static_cast<const ForStmt&>(stmt);
      const Value iterable = eval(*loop.iterable, scope);
      if (!loop.is_recursive) return execute_for(loop, scope, iterable, 0);
      print(run_recursively(loop, scope, iterable, 0));
      return Flow::kNext;
    }
    case StmtType::kIf: return execute_if(static_cast<const IfStmt&>(stmt), scope);
    case StmtType::kSet: {
      const auto& set = static_cast<const SetStmt&>(stmt);
      check_namespaces(*set.target, *scope);
      assign(*set.target, eval(*set.value, scope), *scope);
      return Flow::kNext;
    }
    case StmtType::kSetBlock: return execute_set_block(static_cast<const SetBlockStmt&>(stmt), scope);
    case StmtType::kMacro: {
      const auto& macro = static_cast<const MacroStmt&>(stmt);
      slot(*scope, macro.place) = runtime_.object(std::make_shared<Macro>(*this, macro.macro, scope));
      return Flow::kNext;
    }
    case StmtType::kCallBlock: execute_call_block(static_cast<const CallBlockStmt&>(stmt), scope); return Flow::kNext;
    case StmtType::kFilterBlock: return execute_filter_block(static_cast<const FilterBlockStmt&>(stmt), scope);
    case StmtType::kWith: return execute_with(static_cast<const WithStmt&>(stmt), scope);
    case StmtType::kBlock: {
      const auto& block = static_cast<const BlockStmt&>(stmt);
      const Entered entered(*this, block.frame, nullptr);
      return execute(block.body, entered.scope());
    }
    case StmtType::kBreak: return Flow::kBreak;
    case StmtType::kContinue: return Flow::kContinue;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_if(const IfStmt& stmt, const ScopePtr& scope) {
  for (const auto& [test, body] : stmt.branches)
    if (truth(runtime_, eval(*test, scope))) return execute(body, scope);
  return execute(stmt.otherwise, scope);
}

Interpreter::Flow Interpreter::execute_for(const ForStmt& stmt, const ScopePtr& scope, const Value& iterable, int depth0) {
  bool finished_one = false;  // as in the reference, `else` runs if every iteration ended in break or continue
  {
    const Entered inside(*this, stmt.frame, scope);
    std::optional<Entered> testing;
    if (stmt.test != nullptr) testing.emplace(*this, stmt.test_frame, scope);
    auto loop = std::make_shared<Loop>(*this, stmt, scope, iterable, depth0);
    loop->start(runtime_, testing ? testing->scope() : nullptr);
    const Value loop_value = stmt.uses_loop ? runtime_.object(loop) : Value();
    while (const std::optional<Value> item = loop->advance()) {
      runtime_.step();
      start(stmt.frame, inside.scope());
      inside.scope()->slots[static_cast<size_t>(stmt.loop_slot)] = loop_value;
      assign(*stmt.target, *item, *inside.scope());
      const Flow flow = execute(stmt.body, inside.scope());
      if (flow == Flow::kBreak) break;
      if (flow == Flow::kNext) finished_one = true;
    }
  }
  if (finished_one || stmt.otherwise.empty()) return Flow::kNext;
  const Entered otherwise(*this, stmt.otherwise_frame, scope);
  return execute(stmt.otherwise, otherwise.scope());
}

Value Interpreter::run_recursively(const ForStmt& stmt, const ScopePtr& closure, const Value& iterable, int depth0) {
  const Runtime::Call call(runtime_);
  Capture capture(*this);
  execute_for(stmt, closure, iterable, depth0);
  return runtime_.text(capture.take());
}

std::optional<Value> Interpreter::test_item(const ForStmt& stmt, const ScopePtr& scope, const Value& item) {
  assign(*stmt.test_target, item, *scope);
  if (!truth(runtime_, eval(*stmt.test, scope))) return std::nullopt;
  return read_target(*stmt.test_target, *scope);
}

Interpreter::Flow Interpreter::execute_set_block(const SetBlockStmt& stmt, const ScopePtr& scope) {
  const Entered inside(*this, stmt.frame, scope);
  Capture capture(*this);
  if (const Flow flow = execute(stmt.body, inside.scope()); flow != Flow::kNext) return flow;
  Value value = runtime_.text(capture.take());
  if (stmt.filter != nullptr) value = eval_filter(static_cast<const FilterExpr&>(*stmt.filter), inside.scope(), &value);
  check_namespaces(*stmt.target, *scope);
  assign(*stmt.target, std::move(value), *scope);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_filter_block(const FilterBlockStmt& stmt, const ScopePtr& scope) {
  const Entered inside(*this, stmt.frame, scope);
  Capture capture(*this);
  if (const Flow flow = execute(stmt.body, inside.scope()); flow != Flow::kNext) return flow;
  const Value text = runtime_.text(capture.take());
  print(eval_filter(static_cast<const FilterExpr&>(*stmt.filter), inside.scope(), &text));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_with(const WithStmt& stmt, const ScopePtr& scope) {
  const Entered inside(*this, stmt.frame, scope);
  for (const auto& [target, value] : stmt.bindings) assign(*target, eval(*value, scope), *inside.scope());
  return execute(stmt.body, inside.scope());
}

void Interpreter::execute_call_block(const CallBlockStmt& stmt, const ScopePtr& scope) {
  if (stmt.call == nullptr) return print(call_macro(stmt.macro, scope, {}));
  const Value caller = runtime_.object(std::make_shared<Macro>(*this, stmt.macro, scope));
  print(eval_call(static_cast<const CallExpr&>(*stmt.call), scope, &caller));
}

void Interpreter::print(const Value& value) {
  if (value.is_text()) return print_text(value.as_text());
  if (value.is_undefined()) return;
  std::string text;
  print_to(runtime_, value, text);
  print_text(text);
}

void Interpreter::print_text(std::string_view text) {
  if (captured_bytes_ + text.size() > runtime_.limits().output_bytes)
    throw Fault(Code::kTooLarge, fmt::format("the template prints more than {} bytes and was stopped", runtime_.limits().output_bytes));
  runtime_.work(text.size());
  captured_bytes_ += text.size();
  output_->append(text);
}

void Interpreter::check_namespaces(const Expr& target, Scope& scope) {
  if (target.type != ExprType::kName) return for_each_child(target, [&](Expr& child) { check_namespaces(child, scope); });
  const auto& name = static_cast<const NameExpr&>(target);
  if (name.attribute.empty()) return;
  if (dynamic_cast<Namespace*>(slot(scope, name.place).cell().get()) == nullptr)
    fail("cannot assign attribute '{}' of '{}', which is not a namespace", name.attribute, name.name);
}

void Interpreter::assign(const Expr& target, Value value, Scope& scope) {
  if (target.type != ExprType::kName) return unpack(static_cast<const ItemsExpr&>(target), value, scope);
  const auto& name = static_cast<const NameExpr&>(target);
  if (name.attribute.empty()) {
    slot(scope, name.place) = std::move(value);
    return;
  }
  auto* space = dynamic_cast<Namespace*>(slot(scope, name.place).cell().get());
  if (space == nullptr) fail("'{}' is not a namespace", name.name);
  space->set(runtime_, name.attribute, std::move(value));
}

void Interpreter::unpack(const ItemsExpr& targets, const Value& value, Scope& scope) {
  const std::unique_ptr<Iterator> it = try_iterate(runtime_, value);
  if (it == nullptr) fail("cannot unpack non-iterable {} object", type_name(value));
  std::vector<Value> values;
  while (std::optional<Value> item = it->next()) {
    if (values.size() == targets.items.size()) fail("too many values to unpack (expected {})", targets.items.size());
    values.push_back(std::move(*item));
  }
  if (values.size() < targets.items.size()) fail("not enough values to unpack (expected {}, got {})", targets.items.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) assign(*targets.items[i], std::move(values[i]), scope);
}

Value Interpreter::read_target(const Expr& target, Scope& scope) {
  if (target.type == ExprType::kName) return slot(scope, static_cast<const NameExpr&>(target).place);
  std::vector<Value> values;
  for (const ExprPtr& item : static_cast<const ItemsExpr&>(target).items) values.push_back(read_target(*item, scope));
  return runtime_.tuple(std::move(values));
}

}  // namespace kvik::text::jinja

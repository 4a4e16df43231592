#include "text/template/compare.h"
#include "text/template/interpreter.h"
#include "text/template/operators.h"
#include "text/template/print.h"
#include "text/template/subscript.h"

namespace kvik::text::jinja {

Value Interpreter::eval(const Expr& expr, const ScopePtr& scope) {
  const Deeper deeper(*this);
  runtime_.step();
  line_ = expr.line;
  switch (expr.type) {
    case ExprType::kConst: return static_cast<const ConstExpr&>(expr).value;
    case ExprType::kName: return eval_name(static_cast<const NameExpr&>(expr), scope);
    case ExprType::kList: return runtime_.list(eval_all(static_cast<const ItemsExpr&>(expr).items, scope));
    case ExprType::kTuple: return runtime_.tuple(eval_all(static_cast<const ItemsExpr&>(expr).items, scope));
    case ExprType::kDict: return eval_dict(static_cast<const ItemsExpr&>(expr), scope);
    case ExprType::kUnary: return eval_unary(static_cast<const UnaryExpr&>(expr), scope);
    case ExprType::kBinary: {
      const auto& binary = static_cast<const BinaryExpr&>(expr);
      const Value left = eval(*binary.left, scope);
      return apply(runtime_, binary.op, left, eval(*binary.right, scope));
    }
    case ExprType::kAnd: {
      Value left = eval(*static_cast<const BinaryExpr&>(expr).left, scope);
      return truth(runtime_, left) ? eval(*static_cast<const BinaryExpr&>(expr).right, scope) : left;
    }
    case ExprType::kOr: {
      Value left = eval(*static_cast<const BinaryExpr&>(expr).left, scope);
      return truth(runtime_, left) ? left : eval(*static_cast<const BinaryExpr&>(expr).right, scope);
    }
    case ExprType::kConcat: return eval_concat(static_cast<const ItemsExpr&>(expr), scope);
    case ExprType::kCompare: return eval_compare(static_cast<const CompareExpr&>(expr), scope);
    case ExprType::kConditional: return eval_conditional(static_cast<const ConditionalExpr&>(expr), scope);
    case ExprType::kAttribute: {
      const auto& attribute = static_cast<const AttributeExpr&>(expr);
      return get_attribute(runtime_, eval(*attribute.object, scope), attribute.name);
    }
    case ExprType::kItem: {
      const Value object = eval(*static_cast<const ItemExpr&>(expr).object, scope);
      return get_item(runtime_, object, eval(*static_cast<const ItemExpr&>(expr).key, scope));
    }
    case ExprType::kSlice: return eval_slice(static_cast<const SliceExpr&>(expr), scope);
    case ExprType::kCall: return eval_call(static_cast<const CallExpr&>(expr), scope);
    case ExprType::kFilter: return eval_filter(static_cast<const FilterExpr&>(expr), scope, nullptr);
    case ExprType::kTest: return eval_test(static_cast<const TestExpr&>(expr), scope);
  }
  return {};
}

std::vector<Value> Interpreter::eval_all(const std::vector<ExprPtr>& exprs, const ScopePtr& scope) {
  std::vector<Value> values;
  values.reserve(exprs.size());
  for (const ExprPtr& expr : exprs) values.push_back(eval(*expr, scope));
  return values;
}

Value Interpreter::eval_name(const NameExpr& expr, const ScopePtr& scope) {
  const Value& value = slot(*scope, expr.place);
  return value.is(Kind::kMissing) ? runtime_.undefined(fmt::format("'{}' is undefined", expr.name)) : value;
}

Value Interpreter::eval_dict(const ItemsExpr& expr, const ScopePtr& scope) {
  auto dict = std::make_shared<Dict>();
  for (size_t i = 0; i + 1 < expr.items.size(); i += 2) {
    Value key = eval(*expr.items[i], scope);
    dict->set(std::move(key), eval(*expr.items[i + 1], scope));
  }
  return runtime_.dict(std::move(dict));
}

Value Interpreter::eval_concat(const ItemsExpr& expr, const ScopePtr& scope) {
  const std::vector<Value> parts = eval_all(expr.items, scope);
  std::string text;
  for (const Value& part : parts) {
    if (part.is_text()) runtime_.check_room(text.size() + part.as_text().size());
    print_to(runtime_, part, text);
  }
  return runtime_.text(std::move(text));
}

Value Interpreter::eval_unary(const UnaryExpr& expr, const ScopePtr& scope) {
  const Value operand = eval(*expr.operand, scope);
  if (expr.symbol == '!') return Value::boolean(!truth(runtime_, operand));
  return apply_sign(runtime_, expr.symbol, operand);
}

Value Interpreter::eval_compare(const CompareExpr& expr, const ScopePtr& scope) {
  Value left = eval(*expr.first, scope);
  for (const auto& [op, operand] : expr.rest) {
    Value right = eval(*operand, scope);
    if (!compare(runtime_, op, left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::eval_conditional(const ConditionalExpr& expr, const ScopePtr& scope) {
  if (truth(runtime_, eval(*expr.test, scope))) return eval(*expr.value, scope);
  if (expr.otherwise != nullptr) return eval(*expr.otherwise, scope);
  return runtime_.undefined("an inline if-expression was false and has no else");
}

Value Interpreter::eval_slice(const SliceExpr& expr, const ScopePtr& scope) {
  const auto part = [&](const ExprPtr& bound) { return bound == nullptr ? Value::none() : eval(*bound, scope); };
  const Value object = eval(*expr.object, scope);
  const Value start = part(expr.start);
  const Value stop = part(expr.stop);
  return get_slice(runtime_, object, {start, stop, part(expr.step)});
}

// `start` is the input of the first filter of a filter block.
Value Interpreter::eval_filter(const FilterExpr& expr, const ScopePtr& scope, const Value* start) {
  const bool continues_chain = start != nullptr && expr.subject != nullptr;
  const Value subject = continues_chain           ? eval_filter(static_cast<const FilterExpr&>(*expr.subject), scope, start)
                        : expr.subject == nullptr ? *start
                                                  : eval(*expr.subject, scope);
  const Args args = eval_args(expr.args, scope);
  line_ = expr.line;
  if (expr.body == nullptr) fail("there is no filter named '{}'", expr.name);
  return expr.body(runtime_, subject, args);
}

Value Interpreter::eval_test(const TestExpr& expr, const ScopePtr& scope) {
  const Value subject = eval(*expr.subject, scope);
  const Args args = eval_args(expr.args, scope);
  line_ = expr.line;
  if (expr.body == nullptr) fail("there is no test named '{}'", expr.name);
  return Value::boolean(expr.body(runtime_, subject, args));
}

}  // namespace kvik::text::jinja

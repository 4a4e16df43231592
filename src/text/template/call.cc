#include "text/template/interpreter.h"
#include "text/template/subscript.h"

namespace kvik::text::jinja {

Args Interpreter::eval_args(const CallArgs& args, const ScopePtr& scope) {
  Args result;
  result.list = eval_all(args.list, scope);
  for (const auto& [name, value] : args.named) result.named.emplace_back(name, eval(*value, scope));
  if (args.spread_list != nullptr)
    for (Value& value : collect(runtime_, eval(*args.spread_list, scope))) result.list.push_back(std::move(value));
  if (args.spread_named != nullptr) spread_named(result, eval(*args.spread_named, scope));
  return result;
}

void Interpreter::spread_named(Args& args, const Value& mapping) {
  if (!mapping.is(Kind::kDict)) fail("what follows ** must be a mapping, not {}", type_name(mapping));
  for (const Dict::Entry& entry : mapping.as_dict().entries()) {
    runtime_.step(static_cast<int64_t>(args.named.size() / 8 + 1));
    const std::string& name = to_text(entry.key, "the name of a keyword argument");
    if (args.find(name) != nullptr) fail("got multiple values for keyword argument '{}'", name);
    args.named.emplace_back(name, entry.value);
  }
}

Value Interpreter::eval_call(const CallExpr& expr, const ScopePtr& scope, const Value* caller) {
  Value callee;
  Value self;
  MethodBody method = nullptr;
  if (expr.callee->type == ExprType::kAttribute) {  // calls a method directly, without creating a bound object
    const auto& attribute = static_cast<const AttributeExpr&>(*expr.callee);
    self = eval(*attribute.object, scope);
    method = find_method(self, attribute.name);
    if (method == nullptr) callee = get_attribute(runtime_, self, attribute.name);
  } else {
    callee = eval(*expr.callee, scope);
  }
  Args args = eval_args(expr.args, scope);
  if (caller != nullptr) args.named.emplace_back("caller", *caller);
  line_ = expr.line;
  if (method != nullptr) return method(runtime_, self, args);
  if (callee.is_undefined()) fail("{}", callee.why_undefined());
  if (!callee.is(Kind::kObject)) fail("'{}' object is not callable", type_name(callee));
  return callee.as_object().call(runtime_, std::move(args));
}

Value Interpreter::call_macro(const MacroShape& macro, const ScopePtr& closure, Args args) {
  const Runtime::Call call(runtime_);
  const int line = line_;
  const Entered inside(*this, macro.frame, closure);
  bind_parameters(macro, inside.scope(), std::move(args));
  Capture capture(*this);
  execute(macro.body, inside.scope());
  line_ = line;
  return runtime_.text(capture.take());
}

void Interpreter::bind_parameters(const MacroShape& macro, const ScopePtr& scope, Args args) {
  const auto value_of = [&](int slot_index) -> Value& { return scope->slots[static_cast<size_t>(slot_index)]; };
  const size_t n_parameters = macro.parameters.size();
  for (size_t i = 0; i < n_parameters; ++i) {
    Value& value = value_of(macro.slots[i]);
    if (i < args.list.size())
      value = args.list[i];
    else
      value = args.take(macro.parameters[i]).value_or(Value());
  }
  if (macro.caller_slot >= 0) {
    std::optional<Value> caller = args.take("caller");
    value_of(macro.caller_slot) = caller && !caller->is_none() ? *caller : runtime_.undefined("No caller defined");
  }
  if (macro.kwargs_slot >= 0) {
    auto rest = std::make_shared<Dict>();
    for (auto& [name, value] : args.named) rest->set(name, std::move(value));
    value_of(macro.kwargs_slot) = runtime_.dict(std::move(rest));
  } else if (!args.named.empty()) {
    fail("macro '{}' takes no keyword argument '{}'", macro.name, args.named.front().first);
  }
  if (macro.varargs_slot >= 0) {
    const auto extra = static_cast<ptrdiff_t>(std::min(n_parameters, args.list.size()));
    value_of(macro.varargs_slot) = runtime_.tuple({args.list.begin() + extra, args.list.end()});
  } else if (args.list.size() > n_parameters) {
    fail("macro '{}' takes not more than {} argument(s)", macro.name, n_parameters);
  }
  const size_t n_without_default = n_parameters - macro.defaults.size();
  for (size_t i = 0; i < n_parameters; ++i) {
    if (!value_of(macro.slots[i]).is(Kind::kMissing)) continue;
    Value value = i < n_without_default ? runtime_.undefined(fmt::format("parameter '{}' was not provided", macro.parameters[i]))
                                        : eval(*macro.defaults[i - n_without_default], scope);
    value_of(macro.slots[i]) = std::move(value);
  }
}

}  // namespace kvik::text::jinja

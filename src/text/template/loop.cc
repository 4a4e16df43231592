#include "text/template/loop.h"

#include "text/template/compare.h"

namespace kvik::text::jinja {
namespace {

// The items for which the `if` of the loop is true, tested lazily.
class TestedIterator final : public Iterator {
 public:
  TestedIterator(Runtime& runtime, Interpreter& interpreter, const ForStmt& stmt, ScopePtr scope, std::unique_ptr<Iterator> source)
      : runtime_(runtime), interpreter_(interpreter), stmt_(stmt), scope_(std::move(scope)), source_(std::move(source)) {}

  std::optional<Value> next() override {
    while (const std::optional<Value> item = source_->next()) {
      runtime_.step();
      if (std::optional<Value> kept = interpreter_.test_item(stmt_, scope_, *item)) return kept;
    }
    return std::nullopt;
  }

 private:
  Runtime& runtime_;
  Interpreter& interpreter_;
  const ForStmt& stmt_;
  ScopePtr scope_;
  std::unique_ptr<Iterator> source_;
};

Loop& loop_of(const Value& self) { return static_cast<Loop&>(self.as_object()); }

}  // namespace

Loop::Loop(Interpreter& interpreter, const ForStmt& stmt, ScopePtr closure, Value iterable, int depth0)
    : interpreter_(interpreter), stmt_(stmt), closure_(std::move(closure)), iterable_(std::move(iterable)), depth0_(depth0) {
  set_nesting(iterable_.nesting() + 1);
}

void Loop::start(Runtime& runtime, ScopePtr test_scope) {
  source_ = jinja::iterate(runtime, iterable_);
  if (test_scope != nullptr)
    source_ = std::make_unique<TestedIterator>(runtime, interpreter_, stmt_, std::move(test_scope), std::move(source_));
}

const std::optional<Value>& Loop::peek() {
  if (!has_peeked_) {
    after_ = source_->next();
    has_peeked_ = after_.has_value();
  }
  return after_;
}

std::optional<Value> Loop::advance() {
  std::optional<Value> item = has_peeked_ ? std::move(after_) : source_->next();
  has_peeked_ = false;
  after_.reset();
  if (!item) return std::nullopt;
  ++index0_;
  before_ = std::exchange(current_, item);
  return item;
}

std::optional<int64_t> Loop::length(Runtime& runtime) {
  if (length_) return length_;
  if (stmt_.test == nullptr) length_ = try_length(runtime, iterable_);
  if (length_) return length_;
  std::vector<Value> rest;
  while (std::optional<Value> item = source_->next()) {
    runtime.step();
    rest.push_back(std::move(*item));
  }
  length_ = static_cast<int64_t>(rest.size()) + index0_ + 1 + (has_peeked_ ? 1 : 0);
  source_ = jinja::iterate(runtime, runtime.list(std::move(rest)));
  return length_;
}

std::string Loop::repr(Runtime& runtime) { return fmt::format("<LoopContext {}/{}>", index0_ + 1, *length(runtime)); }

Value Loop::call(Runtime&, Args args) {
  if (!stmt_.is_recursive) fail("The loop must have the 'recursive' marker to be called recursively.");
  const Parameters given("loop", args, {"iterable"}, 1);
  return interpreter_.run_recursively(stmt_, closure_, given.required(0), depth0_ + 1);
}

Value Loop::cycle(const Args& args) const {
  if (!args.named.empty()) fail("loop.cycle() takes no keyword arguments");
  if (args.list.empty()) fail("no items for cycling given");
  return args.list[static_cast<size_t>(index0_) % args.list.size()];
}

bool Loop::changed(Runtime& runtime, const Args& args) {
  Value now = runtime.tuple(args.list);
  if (last_changed_ && equal(*last_changed_, now, runtime.steps_left())) return false;
  last_changed_ = std::move(now);
  return true;
}

std::optional<Value> Loop::attribute(Runtime& runtime, const Value& self, std::string_view name) {
  if (name == "index0") return Value::integer(index0_);
  if (name == "index") return Value::integer(index0_ + 1);
  if (name == "first") return Value::boolean(index0_ == 0);
  if (name == "last") return Value::boolean(!peek().has_value());
  if (name == "length") return Value::integer(*length(runtime));
  if (name == "revindex0") return Value::integer(*length(runtime) - index0_ - 1);
  if (name == "revindex") return Value::integer(*length(runtime) - index0_);
  if (name == "depth0") return Value::integer(depth0_);
  if (name == "depth") return Value::integer(depth0_ + 1);
  if (name == "previtem") return index0_ <= 0 ? runtime.undefined("there is no previous item") : *before_;
  if (name == "nextitem") return peek().has_value() ? *peek() : runtime.undefined("there is no next item");
  if (name == "cycle")
    return runtime.function(
        "cycle", [](Runtime&, const Value& loop, const Args& args) { return loop_of(loop).cycle(args); }, self);
  if (name == "changed")
    return runtime.function(
        "changed", [](Runtime& rt, const Value& loop, const Args& args) { return Value::boolean(loop_of(loop).changed(rt, args)); }, self);
  return std::nullopt;
}

std::string Macro::repr(Runtime&) { return shape_.name.empty() ? "<Macro anonymous>" : fmt::format("<Macro '{}'>", shape_.name); }

std::optional<Value> Macro::attribute(Runtime& runtime, const Value&, std::string_view name) {
  if (name == "name") return shape_.name.empty() ? Value::none() : runtime.text(shape_.name);
  if (name == "catch_kwargs") return Value::boolean(shape_.kwargs_slot >= 0);
  if (name == "catch_varargs") return Value::boolean(shape_.varargs_slot >= 0);
  if (name == "caller") return Value::boolean(shape_.caller_slot >= 0);
  if (name != "arguments") return std::nullopt;
  std::vector<Value> names;
  for (const std::string& parameter : shape_.parameters) names.push_back(runtime.text(parameter));
  return runtime.tuple(std::move(names));
}

}  // namespace kvik::text::jinja

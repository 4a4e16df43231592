#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/value.h"

namespace kvik::text::jinja {

class Runtime;

// The arguments of a call: f(a, b, key=c).
struct Args {
  std::vector<Value> list;
  std::vector<std::pair<std::string, Value>> named;

  const Value* find(std::string_view name) const;
  // Removes and returns it.
  std::optional<Value> take(std::string_view name);
};

// Returns values one by one; nothing at the end, and from then on.
class Iterator {
 public:
  virtual ~Iterator() = default;
  virtual std::optional<Value> next() = 0;
};

// Values other than plain data: functions, macros, namespaces, loops, ranges, generators, views of dicts.
class Object : public Cell {
 public:
  virtual std::string_view type_name() const = 0;
  virtual std::string repr(Runtime& runtime);
  virtual bool equals(const Object&) const { return false; }
  virtual bool is_callable() const { return false; }

  virtual std::optional<int64_t> length(Runtime&) { return std::nullopt; }
  // Python's getattr; nothing if there is no such attribute.
  virtual std::optional<Value> attribute(Runtime&, const Value& /*self*/, std::string_view) { return std::nullopt; }
  // Python's []; nothing if it raises.
  virtual std::optional<Value> item(Runtime&, const Value&) { return std::nullopt; }
  virtual bool has_items() const { return false; }  // whether it supports []
  virtual Value call(Runtime& runtime, Args args);
  // Null if it cannot be iterated.
  virtual std::unique_ptr<Iterator> iterate(Runtime&) { return nullptr; }
  virtual std::unique_ptr<Iterator> iterate_backwards(Runtime&) { return nullptr; }
};

// A function of the environment, or a bound method.
class Function final : public Object {
 public:
  using Body = Value (*)(Runtime& runtime, const Value& self, const Args& args);

  Function(std::string_view name, Body body, Value self = {}) : name_(name), body_(body), self_(std::move(self)) {
    set_nesting(self_.nesting() + 1);
  }
  std::string_view type_name() const override { return "function"; }
  bool is_callable() const override { return true; }
  Value call(Runtime& runtime, Args args) override { return body_(runtime, self_, args); }

 private:
  std::string name_;
  Body body_;
  Value self_;
};

// A sequence that can be iterated once, like a Python generator.
class Generator final : public Object {
 public:
  Generator(std::unique_ptr<Iterator> source, int nesting) : source_(std::move(source)) { set_nesting(nesting); }
  std::string_view type_name() const override { return "generator"; }
  std::unique_ptr<Iterator> iterate(Runtime&) override;

 private:
  std::shared_ptr<Iterator> source_;  // shared by all iterations
};

}  // namespace kvik::text::jinja

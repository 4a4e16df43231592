#pragma once

#include "text/template/runtime.h"

namespace kvik::text::jinja {

// dict.keys(), dict.values(), dict.items().
class DictView final : public Object {
 public:
  enum class Part { kKeys, kValues, kItems };
  DictView(Value dict, Part part) : dict_(std::move(dict)), part_(part) { set_nesting(dict_.nesting() + 2); }

  std::string_view type_name() const override;
  std::string repr(Runtime& runtime) override;
  std::optional<int64_t> length(Runtime&) override { return static_cast<int64_t>(dict_.as_dict().size()); }
  std::unique_ptr<Iterator> iterate(Runtime& runtime) override;
  std::unique_ptr<Iterator> iterate_backwards(Runtime& runtime) override;

 private:
  Value dict_;
  Part part_;
};

// range(): its numbers are generated lazily.
class Range final : public Object {
 public:
  Range(int64_t start, int64_t stop, int64_t step, int64_t count) : start_(start), stop_(stop), step_(step), count_(count) {}

  std::string_view type_name() const override { return "range"; }
  std::string repr(Runtime& runtime) override;
  bool equals(const Object& other) const override;
  std::optional<int64_t> length(Runtime&) override { return count_; }
  bool has_items() const override { return true; }
  std::optional<Value> item(Runtime& runtime, const Value& key) override;
  std::optional<Value> attribute(Runtime& runtime, const Value& self, std::string_view name) override;
  std::unique_ptr<Iterator> iterate(Runtime& runtime) override;
  std::unique_ptr<Iterator> iterate_backwards(Runtime& runtime) override;

 private:
  int64_t start_, stop_, step_, count_;
};

}  // namespace kvik::text::jinja

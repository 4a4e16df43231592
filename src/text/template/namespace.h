#pragma once

#include <map>

#include "text/template/runtime.h"

namespace kvik::text::jinja {

// namespace(): the only object whose attributes a template can set.
class Namespace final : public Object {
 public:
  // Registered with the runtime, which breaks reference cycles at the end.
  static Value make(Runtime& runtime);

  std::string_view type_name() const override { return "Namespace"; }
  std::string repr(Runtime& runtime) override;
  std::optional<Value> attribute(Runtime& runtime, const Value& self, std::string_view name) override;
  void set(Runtime& runtime, std::string_view name, Value value);

 private:
  std::vector<std::pair<std::string, Value>> attributes_;  // in the order of their first assignment
  bool is_printing_ = false;
};

}  // namespace kvik::text::jinja

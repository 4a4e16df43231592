#include "text/template/namespace.h"

#include <algorithm>

#include "text/template/print.h"

namespace kvik::text::jinja {

Value Namespace::make(Runtime& runtime) {
  auto space = std::make_shared<Namespace>();
  Value value = runtime.object(space);
  runtime.empty_at_end([space = std::move(space)] { space->attributes_.clear(); });
  return value;
}

std::string Namespace::repr(Runtime& runtime) {
  if (is_printing_) throw Fault(Code::kBadArgument, "a namespace that holds itself cannot be printed");
  const Runtime::Call call(runtime);  // namespaces can be deeply nested
  is_printing_ = true;
  std::string text = "<Namespace {";
  for (size_t i = 0; i < attributes_.size(); ++i) {
    if (i > 0) text += ", ";
    repr_to(runtime, runtime.text(attributes_[i].first), text);
    text += ": ";
    repr_to(runtime, attributes_[i].second, text);
  }
  is_printing_ = false;
  return text + "}>";
}

std::optional<Value> Namespace::attribute(Runtime& runtime, const Value&, std::string_view name) {
  runtime.step(static_cast<int64_t>(attributes_.size() / 8));
  const auto it = std::find_if(attributes_.begin(), attributes_.end(), [&](const auto& pair) { return pair.first == name; });
  return it == attributes_.end() ? std::nullopt : std::optional(it->second);
}

void Namespace::set(Runtime& runtime, std::string_view name, Value value) {
  runtime.step(static_cast<int64_t>(attributes_.size() / 8));
  const auto it = std::find_if(attributes_.begin(), attributes_.end(), [&](const auto& pair) { return pair.first == name; });
  if (it != attributes_.end()) {
    it->second = std::move(value);
    return;
  }
  runtime.check_room((attributes_.size() + 1) * sizeof(attributes_[0]));
  attributes_.emplace_back(name, std::move(value));
}

}  // namespace kvik::text::jinja

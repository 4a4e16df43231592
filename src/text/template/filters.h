#pragma once

#include <string_view>

#include "text/template/object.h"
#include "text/template/value.h"

namespace kvik::text::jinja {

class Runtime;

using FilterBody = Value (*)(Runtime& runtime, const Value& subject, const Args& args);
using TestBody = bool (*)(Runtime& runtime, const Value& subject, const Args& args);
using MethodBody = Function::Body;

// Null if there is none of that name.
FilterBody find_filter(std::string_view name);
TestBody find_test(std::string_view name);
MethodBody find_method(const Value& self, std::string_view name);

// range, dict, namespace, raise_exception, strftime_now; nothing for other names.
std::optional<Value> find_global(Runtime& runtime, std::string_view name);

// An entry of a table of filters, methods or tests.
template <typename Body>
struct Named {
  std::string_view name;
  Body body;
};

}  // namespace kvik::text::jinja

#pragma once

#include <fmt/format.h>
#include <optional>
#include <simdjson.h>
#include <string_view>

#include "base/utf8.h"
#include "kvik/error.h"

// Access to fields of JSON files; every error names the field.
namespace kvik::text::json {

using Array = simdjson::dom::array;
using Element = simdjson::dom::element;
using Object = simdjson::dom::object;

[[noreturn]] inline void refuse(std::string_view what, std::string_view expected) {
  throw Error(Code::kBadModel, fmt::format("'{}' is missing or is not {}", what, expected));
}

// Nothing if the key is absent or null.
inline std::optional<Element> find(const Object& object, std::string_view key) {
  Element value;
  if (object.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

inline Object object_of(const Element& value, std::string_view name) {
  Object object;
  if (value.get_object().get(object) != simdjson::SUCCESS) refuse(name, "an object");
  return object;
}

inline Array array_of(const Element& value, std::string_view name) {
  Array array;
  if (value.get_array().get(array) != simdjson::SUCCESS) refuse(name, "an array");
  return array;
}

inline std::string_view text_of(const Element& value, std::string_view name) {
  std::string_view text;
  if (value.get_string().get(text) != simdjson::SUCCESS) refuse(name, "a string");
  return text;
}

inline int64_t integer_of(const Element& value, std::string_view name) {
  int64_t number;
  if (value.get_int64().get(number) != simdjson::SUCCESS) refuse(name, "an integer");
  return number;
}

inline Array array(const Object& object, std::string_view key) {
  const auto value = find(object, key);
  if (!value) refuse(key, "an array");
  return array_of(*value, key);
}

inline std::string_view text(const Object& object, std::string_view key) {
  const auto value = find(object, key);
  if (!value) refuse(key, "a string");
  return text_of(*value, key);
}

inline std::string_view text_or(const Object& object, std::string_view key, std::string_view fallback) {
  const auto value = find(object, key);
  return value ? text_of(*value, key) : fallback;
}

inline bool flag_or(const Object& object, std::string_view key, bool fallback) {
  const auto value = find(object, key);
  if (!value) return fallback;
  bool flag;
  if (value->get_bool().get(flag) != simdjson::SUCCESS) refuse(key, "true or false");
  return flag;
}

inline int64_t integer_or(const Object& object, std::string_view key, int64_t fallback) {
  const auto value = find(object, key);
  return value ? integer_of(*value, key) : fallback;
}

// A string of exactly one character.
inline char32_t character(const Object& object, std::string_view key) {
  const std::string_view value = text(object, key);
  if (value.empty() || utf8::size_of(value[0]) != value.size()) refuse(key, "one character");
  const char* p = value.data();
  return utf8::next(p);
}

}  // namespace kvik::text::json

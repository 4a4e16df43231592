#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/json/api_error.h"

namespace kvik::server {

// Parses a body, which must be a JSON object. Throws ApiError(400).
inline constexpr int kMostNested = 100;
inline constexpr int kMostKeys = 10'000;  // an ordered object compares each key with all before it
Json parse_body(std::string_view body);

// The fields of an object in a request. A field that is missing or null is nullopt; one of the wrong type or range throws ApiError(400)
// that names it.
class Fields {
 public:
  // `path` is the name of the object in messages; empty: the body itself.
  explicit Fields(const Json& object, std::string path = {});

  bool has(std::string_view name) const { return find(name) != nullptr; }
  const Json* find(std::string_view name) const;  // null if it is missing or null
  std::optional<std::string> text(std::string_view name) const;
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<double> number(std::string_view name, double lowest, double highest) const;
  std::optional<int64_t> integer(std::string_view name, int64_t lowest, int64_t highest) const;
  std::vector<std::string> texts(std::string_view name, size_t most) const;  // a string or a list of strings
  std::optional<Fields> object(std::string_view name) const;
  std::vector<Fields> objects(std::string_view name, size_t most) const;

  std::string required_text(std::string_view name) const;
  std::string path_of(std::string_view name) const;
  const Json& json() const { return *object_; }
  [[noreturn]] void fail(std::string_view name, std::string_view expected) const;

 private:
  const Json* object_;
  std::string path_;
};

// A list of at least one number that may be a token id.
bool is_token_ids(const Json& json);

// JSON in one line; bytes that are not UTF-8 become U+FFFD.
std::string dump(const Json& json);

}  // namespace kvik::server

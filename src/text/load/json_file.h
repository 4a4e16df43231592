#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "text/load/json_fields.h"

namespace kvik::text {

// A parsed JSON file whose root is an object. Its elements are valid as long as this object.
class JsonFile {
 public:
  explicit JsonFile(const std::filesystem::path& path);
  JsonFile(std::string_view text, std::string_view origin);
  JsonFile(const JsonFile&) = delete;
  JsonFile& operator=(const JsonFile&) = delete;
  const json::Object& root() const { return root_; }

 private:
  simdjson::dom::parser parser_;
  json::Object root_;
};

}  // namespace kvik::text

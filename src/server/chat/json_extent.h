#pragma once

#include <cstddef>
#include <string_view>

namespace kvik::server {

// Finds the end of a JSON object or list in text that arrives in pieces.
class JsonExtent {
 public:
  // Continues with `text`, the whole text so far, which begins with '{' or '['. True once the value is complete: size() bytes.
  bool extend(std::string_view text) {
    for (; !done_ && position_ < text.size(); ++position_) {
      const char c = text[position_];
      if (in_string_) {
        if (escaped_) {
          escaped_ = false;
        } else if (c == '\\') {
          escaped_ = true;
        } else if (c == '"') {
          in_string_ = false;
        }
      } else if (c == '"') {
        in_string_ = true;
      } else if (c == '{' || c == '[') {
        done_ = ++depth_ > kMostNested;  // more deeply nested values are cut off and treated as text
      } else if (c == '}' || c == ']') {
        done_ = --depth_ <= 0;
      }
    }
    return done_;
  }
  size_t size() const { return position_; }

 private:
  static constexpr int kMostNested = 100;
  size_t position_ = 0;
  int depth_ = 0;
  bool in_string_ = false, escaped_ = false, done_ = false;
};

}  // namespace kvik::server

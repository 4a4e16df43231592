#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvik::server {

// One field of a form.
struct FormPart {
  std::string name;
  std::string filename;  // empty: it is no file
  std::string_view content;
};

// The fields of a multipart/form-data body; views into it. Throws ApiError(400) if it is malformed or has too many.
std::vector<FormPart> parse_multipart(std::string_view content_type, std::string_view body);

}  // namespace kvik::server

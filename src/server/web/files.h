#pragma once

#include <span>
#include <string_view>

namespace kvik::server {

// A file of src/server/web, embedded in the program.
struct WebFile {
  std::string_view name;  // "index.html"
  std::string_view content;
};
std::span<const WebFile> web_files();

}  // namespace kvik::server

#include "server/web/page.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/hash.h"
#include "server/web/files.h"

namespace kvik::server {
namespace {

// Nothing from other hosts, no inline scripts, no embedding in frames.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; media-src 'self' blob:; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string_view type_of(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kTypes[] = {{".html", "text/html; charset=utf-8"},
                                                                      {".css", "text/css; charset=utf-8"},
                                                                      {".js", "text/javascript; charset=utf-8"},
                                                                      {".json", "application/json"},
                                                                      {".svg", "image/svg+xml"},
                                                                      {".png", "image/png"},
                                                                      {".ico", "image/x-icon"},
                                                                      {".webmanifest", "application/manifest+json"}};
  for (const auto& [ending, type] : kTypes) {
    if (name.ends_with(ending)) return type;
  }
  return "application/octet-stream";
}

std::string tag_of(std::string_view content) {
  Hash hash;
  hash.add(content);
  return fmt::format("\"{}\"", hash.hex());
}

std::string_view name_of(std::string_view path) {
  if (path == "/") return "index.html";
  constexpr std::string_view kFolder = "/web/";
  return path.starts_with(kFolder) ? path.substr(kFolder.size()) : path.substr(1);
}

}  // namespace

void web_file(Service&, const std::shared_ptr<Exchange>& exchange) {
  const std::string_view name = name_of(exchange->request.path);
  const std::span<const WebFile> files = web_files();
  const auto found = std::ranges::find(files, name, &WebFile::name);
  if (found == files.end()) throw ApiError(404, "", fmt::format("there is no {}", exchange->request.path.substr(0, 100)));
  const std::string tag = tag_of(found->content);
  const Headers headers = {{"etag", tag},
                           {"cache-control", "no-cache"},
                           {"content-security-policy", kPolicy},
                           {"referrer-policy", "no-referrer"},
                           {"permissions-policy", "microphone=(self)"}};
  exchange->send(Response{200, std::string(found->content), std::string(type_of(found->name)), headers});
}

}  // namespace kvik::server

#include "kvik/compile_cache.h"

#include <charconv>
#include <fmt/format.h>

#include "api/environment.h"
#include "kvik/error.h"

namespace kvik {

CompileCache default_compile_cache() {
  const api::Environment environment = api::read_environment();
  CompileCache cache{.folder = environment.cache_folder};
  const std::string& text = environment.cache_bytes;
  if (text.empty()) return cache;
  const char* const end = text.data() + text.size();
  const auto [stop, fault] = std::from_chars(text.data(), end, cache.max_bytes);
  if (fault != std::errc() || stop != end)
    throw Error(Code::kBadArgument, fmt::format("KVIK_CACHE_BYTES is '{}'; a number of bytes was expected", text));
  if (cache.max_bytes == 0) cache.folder.clear();
  return cache;
}

}  // namespace kvik

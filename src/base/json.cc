#include "base/json.h"

#include <fmt/format.h>

#include "base/mapped_file.h"
#include "kvik/error.h"

namespace kvik {

Json parse_json(std::string_view text, std::string_view origin) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& e) {
    if (e.byte > text.size())
      throw Error(Code::kBadModel,
                  fmt::format("{}: not valid JSON: it ends after {} bytes; the file may be truncated", origin, text.size()));
    throw Error(Code::kBadModel, fmt::format("{}: not valid JSON at byte {} of {}", origin, e.byte, text.size()));
  } catch (const Json::exception& e) {  // such as a number out of range
    throw Error(Code::kBadModel, fmt::format("{}: not valid JSON ({})", origin, e.what()));
  }
}

Json read_json_file(const std::filesystem::path& path) { return parse_json(MappedFile::open(path)->text(), path.string()); }

}  // namespace kvik

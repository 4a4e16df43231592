#include "cli/write_file.h"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>

#include "kvik/error.h"

namespace kvik::cli {

void write_file(const std::string& file, std::string_view content) {
  const std::string beside = file + ".partial";
  std::ofstream stream(beside, std::ios::binary);
  stream << content;
  stream.close();
  std::error_code fault;
  if (stream) std::filesystem::rename(beside, file, fault);
  if (!stream || fault) throw Error(Code::kIo, fmt::format("{}: the file could not be written", file));
}

}  // namespace kvik::cli

#pragma once

#include <string>
#include <string_view>

namespace kvik::cli {

// Writes beside the file first, then takes its place: whoever kills us in between leaves the old file whole.
// Throws Error(kIo) that names the file.
void write_file(const std::string& file, std::string_view content);

}  // namespace kvik::cli

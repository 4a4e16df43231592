#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace kvik::hub {

// The names of the files that hold weights of an ONNX file, as it names them; the files need not be there. Throws Error(kBadModel) for a
// file that cannot be parsed.
std::set<std::string> external_names(const std::filesystem::path& graph);

}  // namespace kvik::hub

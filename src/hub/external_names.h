#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace kvik::hub {

// The names of the external data files of an ONNX file, as given in it; the files need not exist. Throws Error(kBadModel) for a
// file that cannot be parsed.
std::set<std::string> external_names(const std::filesystem::path& graph);

}  // namespace kvik::hub

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace kvik::hub {

// The name that a hub gives to a file of these contents: SHA-256 for one in large-file storage, else the SHA-1 of a git blob. 64 or 40
// digits.
bool is_digest(const std::string& text);

// The same of a file on disk, of the kind that has so many digits. Throws Error(kIo).
std::string digest_of(const std::filesystem::path& file, size_t n_digits);

}  // namespace kvik::hub

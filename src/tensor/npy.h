#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "tensor/tensor.h"

namespace kvik {

// Reads a NumPy array file (.npy): little-endian floats and integers in C order.
// Throws Error: kIo if the file cannot be read, kBadArgument if it is not a .npy file, kUnsupported for other types and orders.
Tensor read_npy(const std::filesystem::path& path);
Tensor read_npy(std::span<const std::byte> bytes, const std::string& name);  // `name` begins every message

}  // namespace kvik

#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "tensor/tensor.h"

namespace kvik {

// An array as NumPy saves it (.npy): floats and integers of this machine's byte order, in C order.
// Throws Error: kIo where there is no such file, kBadArgument for bytes that are no such array, kUnsupported for other types and orders.
Tensor read_npy(const std::filesystem::path& path);
Tensor read_npy(std::span<const std::byte> bytes, const std::string& name);  // `name` stands before every sentence

}  // namespace kvik

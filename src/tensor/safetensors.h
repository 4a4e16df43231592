#pragma once

#include <filesystem>
#include <string>

#include "tensor/tensor.h"

namespace kvik {

// One tensor of a .safetensors file, copied; undefined if the file has none of this name. Throws Error: kIo if the file cannot be read,
// kBadModel if it is damaged, kUnsupported if the tensor's type is not f64, f32, f16 or bf16.
Tensor read_safetensor(const std::filesystem::path& path, const std::string& name);
Tensor read_safetensor(std::span<const std::byte> bytes, const std::string& name, const std::string& origin);

}  // namespace kvik

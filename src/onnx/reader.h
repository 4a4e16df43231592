#pragma once

#include <filesystem>
#include <span>

#include "base/log.h"
#include "onnx/graph.h"

namespace kvik::onnx {

// The supported IR versions. A newer file is read with a warning.
inline constexpr int64_t kOldestIr = 3;
inline constexpr int64_t kNewestIr = 14;

// Reads a model and links its graph; weights are mapped, not read. Throws Error with a message that names the file.
Model read_model(const std::filesystem::path& path, const Log& log = {});

// The same from memory, which must outlive the model. External data is refused.
Model read_model(std::span<const std::byte> bytes, const Log& log = {});

// Reads a file with one serialized TensorProto.
Tensor read_tensor(const std::filesystem::path& path);

}  // namespace kvik::onnx

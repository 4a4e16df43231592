#pragma once

#include <optional>

#include "analysis/signature.h"
#include "backend/native/native_backend.h"

namespace kvik::laws {

// The model with every weight that the native backend quantizes when it loads replaced by the numbers that it then computes with, so that
// another backend can be compared closely. Nothing if some weight cannot be replaced (it is inside a branch, or computed).
std::optional<analysis::Signature> dequantized(const analysis::Signature& signature, const backend::NativeOptions& options);

}  // namespace kvik::laws

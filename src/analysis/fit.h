#pragma once

#include <string>
#include <vector>

#include "analysis/signature.h"

namespace kvik::analysis {

// Why a model with a decoder cannot generate, as far as its declared inputs and outputs tell: no logits, no encoder file, or an encoder
// whose outputs do not fit the decoder. One sentence each; empty if nothing was found.
std::vector<std::string> generation_problems(const Signature& signature);

}  // namespace kvik::analysis

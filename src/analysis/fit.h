#pragma once

#include <string>
#include <vector>

#include "analysis/signature.h"

namespace kvik::analysis {

// Whether the encoder and the decoder of an encoder-decoder belong together, as far as their declared shapes tell: one sentence for
// each thing that the decoder reads and the encoder does not give so. Empty where all is well, and for other kinds of models.
std::vector<std::string> encoder_misfits(const Signature& signature);

}  // namespace kvik::analysis

#pragma once

#include <vector>

#include "analysis/signature.h"

namespace kvik::analysis {

// Finds the outputs of an encoder that a decoder reads as keys and values of cross attention. In the encoder nothing attends to them, so
// that only the decoder's use tells what they are: they get the decoder's layout. Outputs are matched with inputs of the same name, then by
// what their names say, then in order; only where element type and declared sizes agree.
void find_cross_outputs(std::vector<File>& files);

}  // namespace kvik::analysis

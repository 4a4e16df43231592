#pragma once

#include <cstddef>
#include <string_view>

namespace kvik {

// Edits between two words, where a swap of neighbors is one edit (optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace kvik

#pragma once

#include <string>
#include <vector>

#include "kvik/inspect.h"

namespace kvik::cli {

std::string inspection_table(const Inspection& inspection, bool color);

// "14.3 MB"
std::string size_text(int64_t n_bytes);

// Inputs or outputs of all layers as one line: names that differ only in the layer number, or in that and the words after it.
struct PortLine {
  std::string name;  // "past_key_values.{0..27}.key/.value"
  std::string dtype;
  std::string shape;
  std::string role;
};
std::vector<PortLine> port_lines(const std::vector<PortInfo>& ports);

}  // namespace kvik::cli

#pragma once

#include <string>
#include <vector>

#include "kvik/inspect.h"

namespace kvik::cli {

std::string inspection_table(const Inspection& inspection, bool color);

// "14.3 MB"
std::string size_text(int64_t n_bytes);

// Ports whose names differ only in a layer number, or in that and the words after it, are one line.
struct PortLine {
  std::string name;  // "past_key_values.{0..27}.key/.value"
  std::string dtype;
  std::string shape;
  std::string role;
};
std::vector<PortLine> port_lines(const std::vector<PortInfo>& ports);

}  // namespace kvik::cli

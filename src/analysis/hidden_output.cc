#include "analysis/hidden_output.h"

#include "analysis/port_names.h"

namespace kvik::analysis {

const Port* hidden_output(const File& file) {
  const Port* chosen = nullptr;
  for (const Port& port : file.outputs) {
    if (port.role != Role::kHiddenStates) continue;
    const NameParts parts = name_parts(port.name);
    if (parts.has("last") || (parts.has("token") && parts.has("embeddings"))) return &port;
    chosen = &port;
  }
  return chosen;
}

}  // namespace kvik::analysis

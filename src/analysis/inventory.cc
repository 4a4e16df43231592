#include "analysis/inventory.h"

#include "onnx/eval/kernel.h"

namespace kvik::analysis {
namespace {

constexpr int64_t kSmallConstant = 64;  // elements; axes and shapes are not weights

void count_tensor(const onnx::TensorData& data, Inventory& inventory) {
  inventory.weight_bytes[data.dtype] += static_cast<int64_t>(storage_bytes(data.dtype, data.n_elements));
  if (!data.external_file.empty()) inventory.external_files.emplace(data.external_file);
}

void count_graph(const onnx::Graph& graph, Inventory& inventory, std::set<std::string>& lacking) {
  for (const onnx::TensorData& data : graph.initializers) count_tensor(data, inventory);
  for (const onnx::Node& node : graph.nodes) {
    ++inventory.n_nodes;
    std::string name = node.domain.empty() ? std::string(node.op) : std::string(node.domain) + "." + std::string(node.op);
    if (onnx::reference_kernels().find(node.domain, node.op) == nullptr) lacking.insert(name);
    ++inventory.operators[std::move(name)];
    for (const onnx::Attribute& attribute : node.attributes) {
      if (const auto* tensor = std::get_if<onnx::TensorData>(&attribute.data)) {
        if (tensor->n_elements > kSmallConstant) count_tensor(*tensor, inventory);
      } else if (const auto* inner = std::get_if<std::shared_ptr<const onnx::Graph>>(&attribute.data)) {
        count_graph(**inner, inventory, lacking);
      }
    }
  }
}

}  // namespace

int64_t Inventory::total_weight_bytes() const {
  int64_t bytes = 0;
  for (const auto& [dtype, n] : weight_bytes) bytes += n;
  return bytes;
}

void Inventory::add(const Inventory& other) {
  n_nodes += other.n_nodes;
  for (const auto& [name, n] : other.operators) operators[name] += n;
  for (const auto& [dtype, n] : other.weight_bytes) weight_bytes[dtype] += n;
  external_files.insert(other.external_files.begin(), other.external_files.end());
  std::set<std::string> lacking(without_kernel.begin(), without_kernel.end());
  lacking.insert(other.without_kernel.begin(), other.without_kernel.end());
  without_kernel.assign(lacking.begin(), lacking.end());
}

Inventory take_inventory(const onnx::Model& model) {
  Inventory inventory;
  std::set<std::string> lacking;
  count_graph(*model.graph, inventory, lacking);
  inventory.without_kernel.assign(lacking.begin(), lacking.end());
  return inventory;
}

}  // namespace kvik::analysis

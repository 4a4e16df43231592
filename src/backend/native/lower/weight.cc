#include "backend/native/lower/lowering.h"
#include "backend/native/tables/extract.h"

// Constant matrices: which tensors of the model they are made of.
namespace kvik::native {
namespace {

using onnx::kNoValue;
using onnx::Node;
using onnx::ValueId;

const Node* producer_of(const onnx::Graph& graph, ValueId id) {
  const onnx::NodeId node = graph.value(id).producer;
  return node == onnx::kNoNode ? nullptr : &graph.nodes[static_cast<size_t>(node)];
}

bool swaps_last_two(const Node& transpose) {
  std::vector<int64_t> perm = transpose.ints_or("perm", {1, 0});
  const size_t rank = perm.size();
  if (rank < 2) return false;
  std::swap(perm[rank - 1], perm[rank - 2]);
  for (size_t i = 0; i < rank; ++i) {
    if (perm[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

// Looks through nodes that only rearrange the same numbers, so that a transposed table and the table itself are one weight.
void look_through(const onnx::Graph& graph, GraphMatrix& part) {
  for (;;) {
    const Node* node = producer_of(graph, part.value);
    if (node == nullptr || !node->domain.empty() || node->inputs.empty()) return;
    if (node->op == "Identity") {
      part.value = node->inputs[0];
    } else if (node->op == "Transpose" && swaps_last_two(*node)) {
      part.value = node->inputs[0];
      part.n_major = !part.n_major;
    } else if (node->op == "Cast" && part.quantized_by == onnx::kNoNode) {
      const onnx::TensorData* from = graph.initializer_of(node->inputs[0]);
      const Node* dequantized = producer_of(graph, node->inputs[0]);
      const bool floats = from != nullptr ? is_float(from->dtype) : dequantized != nullptr && dequantized->op == "DequantizeLinear";
      if (!floats) return;
      part.value = node->inputs[0];
    } else if (node->op == "DequantizeLinear" && part.quantized_by == onnx::kNoNode && part.slice < 0) {
      if (graph.initializer_of(node->inputs[0]) == nullptr) return;
      part.quantized_by = graph.value(part.value).producer;
      part.scales = node->inputs[1];
      part.zero_points = node->inputs.size() > 2 ? node->inputs[2] : kNoValue;
      part.value = node->inputs[0];
      return;
    } else {
      return;
    }
  }
}

bool is_in_file(const FlatGraph& flat, const onnx::TensorData& data) {
  const bool from_file = flat.model != nullptr && !flat.model->path.empty();
  return from_file && (!data.external_file.empty() || (!flat.model->files.empty() && data.owner == flat.model->files.front()));
}

}  // namespace

int Lowering::tensor_of(ValueId value) {
  if (value == kNoValue) return -1;
  const auto [known, is_new] = tensors_of_.try_emplace(value, static_cast<int>(plan_.tensors.size()));
  if (!is_new) return known->second;
  const onnx::Graph& graph = program_.flat->graph;
  ModelTensor tensor;
  tensor.name = graph.name_of(value);
  if (const onnx::TensorData* data = graph.initializer_of(value)) {
    tensor.data = without_names(*data);
    tensor.in_file = is_in_file(*program_.flat, *data);
  } else {
    tensor.expression = take(extract_constant(graph, value));
  }
  plan_.tensors.push_back(std::move(tensor));
  return known->second;
}

int Lowering::add_matrix(GraphMatrix matrix, Activations activations) {
  if (matrix.quantized_by == onnx::kNoNode) look_through(program_.flat->graph, matrix);
  return add_weight(matrix, activations);
}

int Lowering::add_weight(const GraphMatrix& matrix, Activations activations) {
  const onnx::Graph& graph = program_.flat->graph;
  WeightPart part{tensor_of(matrix.value), matrix.n_major, matrix.slice, matrix.k, matrix.n};
  if (matrix.quantized_by != onnx::kNoNode) part.quantization = quantization_of(graph.nodes[static_cast<size_t>(matrix.quantized_by)]);
  part.scales = tensor_of(matrix.scales);
  part.zero_points = tensor_of(matrix.zero_points);
  std::vector<int>& alike = weights_of_[{part.value, part.slice}];
  for (const int known : alike) {
    const PlanWeight& other = plan_.weights[static_cast<size_t>(known)];
    if (other.parts.front() == part && other.activations == activations) return known;
  }
  plan_.weights.push_back({part.k, part.n, {part}, activations});
  alike.push_back(static_cast<int>(plan_.weights.size() - 1));
  return alike.back();
}

}  // namespace kvik::native

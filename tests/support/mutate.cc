#include "support/mutate.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>

namespace kvik::testing_support {
namespace {

using onnx::Graph;
using onnx::Node;
using Ops = std::vector<std::string_view>;

size_t below(std::mt19937& random, size_t n) { return random() % n; }

template <class T>
const T& any_of(std::mt19937& random, const std::vector<T>& list) {
  return list[below(random, list.size())];
}

void set(Node& node, std::string_view name, onnx::Attribute::Data data) {
  std::erase_if(node.attributes, [&](const onnx::Attribute& attribute) { return attribute.name == name; });
  node.attributes.push_back({name, std::move(data)});
}

bool permute(Node& node, std::mt19937& random) {
  std::vector<int64_t> perm = node.ints_or("perm", {1, 0});
  if (perm.size() < 2) return false;
  const size_t i = below(random, perm.size()), j = (i + 1 + below(random, perm.size() - 1)) % perm.size();
  std::swap(perm[i], perm[j]);
  set(node, "perm", perm);
  return true;
}

bool other_axis(Node& node, std::mt19937& random) {
  set(node, "axis", static_cast<int64_t>(below(random, 3)));
  return true;
}

bool other_axes(Node& node, std::mt19937&) {
  if (node.op == "LayerNormalization") {
    set(node, "axis", int64_t{1});
  } else if (node.inputs.size() < 2) {
    set(node, "axes", std::vector<int64_t>{1});
  } else {
    return false;
  }
  return true;
}

bool swap_operands(Node& node, std::mt19937&) {
  if (node.inputs.size() < 2 || node.inputs[0] == node.inputs[1]) return false;
  std::swap(node.inputs[0], node.inputs[1]);
  return true;
}

bool swap_choices(Node& node, std::mt19937&) {
  if (node.inputs.size() != 3) return false;
  std::swap(node.inputs[1], node.inputs[2]);
  return true;
}

bool swap_any(Node& node, std::mt19937& random) {
  const size_t n = node.inputs.size();
  if (n < 2) return false;
  const size_t i = below(random, n), j = (i + 1 + below(random, n - 1)) % n;
  if (node.inputs[i] == node.inputs[j]) return false;
  std::swap(node.inputs[i], node.inputs[j]);
  return true;
}

bool other_attribute(Node& node, std::mt19937& random) {
  if (node.attributes.empty()) return false;
  onnx::Attribute::Data& data = node.attributes[below(random, node.attributes.size())].data;
  if (auto* number = std::get_if<int64_t>(&data)) {
    const int64_t others[] = {*number + 1, *number * 2, *number / 2};
    *number = *number == 0 || *number == 1 ? 1 - *number : others[below(random, 3)];
    return true;
  }
  auto* const real = std::get_if<float>(&data);
  if (real == nullptr) return false;
  *real = *real == 0 ? 0.5f : *real * 2;
  return true;
}

bool other_operator(Node& node, std::mt19937& random) {
  static const std::map<std::string_view, Ops> kOthers = {{"Add", {"Sub", "Mul"}},
                                                          {"Mul", {"Add"}},
                                                          {"Sub", {"Add"}},
                                                          {"Div", {"Mul"}},
                                                          {"Greater", {"Less"}},
                                                          {"Less", {"GreaterOrEqual", "Greater"}},
                                                          {"LessOrEqual", {"Greater", "Less"}},
                                                          {"GreaterOrEqual", {"Less", "Greater"}},
                                                          {"Cos", {"Sin"}},
                                                          {"Sin", {"Cos"}},
                                                          {"And", {"Or"}},
                                                          {"Or", {"And"}},
                                                          {"ReduceMean", {"ReduceMax", "ReduceSum"}},
                                                          {"Softmax", {"LogSoftmax"}},
                                                          {"Sigmoid", {"Tanh"}},
                                                          {"Tanh", {"Sigmoid"}},
                                                          {"Equal", {"Greater"}}};
  const auto others = kOthers.find(node.op);
  if (others == kOthers.end()) return false;
  node.op = any_of(random, others->second);
  return true;
}

// A tensor of up to eight numbers with one changed, or two exchanged.
template <class T>
std::optional<Tensor> other_numbers(Tensor tensor, std::mt19937& random) {
  const std::span<T> numbers = tensor.mutable_data<T>();
  if (numbers.empty() || numbers.size() > 8) return {};
  if (numbers.size() > 1 && random() % 2 == 0) {
    const size_t i = below(random, numbers.size()), j = (i + 1) % numbers.size();
    std::swap(numbers[i], numbers[j]);
  } else {
    static const std::vector<int> kSteps = {1, -1, 2};
    T& number = numbers[below(random, numbers.size())];
    number = static_cast<T>(number + static_cast<T>(any_of(random, kSteps)));
  }
  return tensor;
}

// The elements of a tensor as an initializer.
onnx::TensorData stored(std::string_view name, const Tensor& tensor) {
  const auto bytes = tensor.bytes();
  auto text = std::make_shared<std::string>(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return {.name = name,
          .dtype = tensor.dtype(),
          .dims = tensor.dims(),
          .n_elements = tensor.size(),
          .form = onnx::TensorData::Form::kRaw,
          .stored = *text,
          .owner = text,
          .external_file = {}};
}

std::optional<onnx::TensorData> other_tensor(const onnx::TensorData& data, std::mt19937& random) {
  if (data.n_elements > 8) return {};
  std::optional<Tensor> changed;
  if (data.dtype == DType::kI64) changed = other_numbers<int64_t>(load(data), random);
  if (data.dtype == DType::kF32) changed = other_numbers<float>(load(data), random);
  if (!changed) return {};
  return stored(data.name, *changed);
}

bool other_constant(Graph& graph, onnx::ValueId id, std::mt19937& random) {
  const onnx::Value& value = graph.value(id);
  if (value.initializer >= 0) {
    const auto changed = other_tensor(graph.initializers[static_cast<size_t>(value.initializer)], random);
    if (changed) graph.initializers[static_cast<size_t>(value.initializer)] = *changed;
    return changed.has_value();
  }
  if (value.producer == onnx::kNoNode) return false;
  Node& producer = graph.nodes[static_cast<size_t>(value.producer)];
  if (producer.op != "Constant" || !producer.has("value")) return false;
  const auto changed = other_tensor(producer.tensor("value"), random);
  if (changed) set(producer, "value", *changed);
  return changed.has_value();
}

struct Mutation {
  std::string_view name;
  Ops on;                                           // operators; empty: any
  bool (*apply)(Node& node, std::mt19937& random);  // null: one of the node's constants
};

const std::vector<Mutation>& mutations() {
  static const Ops kReadConstants = {"Reshape", "Slice", "Unsqueeze", "Expand", "Add", "Mul", "Gather", "Concat", "Div", "Range", "Where"};
  static const Ops kComposite = {"Attention",
                                 "QAttention",
                                 "MultiHeadAttention",
                                 "GroupQueryAttention",
                                 "RotaryEmbedding",
                                 "EmbedLayerNormalization",
                                 "SkipLayerNormalization",
                                 "SkipSimplifiedLayerNormalization",
                                 "SimplifiedLayerNormalization",
                                 "LayerNormalization",
                                 "RMSNormalization"};
  static const std::vector<Mutation> kAll = {
      {"permutation of", {"Transpose"}, permute},
      {"permutation of", {"Transpose"}, permute},
      {"axis of", {"Softmax"}, other_axis},
      {"axis of", {"Concat"}, other_axis},
      {"axis of", {"Gather", "Split", "CumSum"}, other_axis},
      {"axes of", {"ReduceMean", "LayerNormalization"}, other_axes},
      {"operands of", {"MatMul", "Sub", "Div", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Concat"}, swap_operands},
      {"choices of", {"Where"}, swap_choices},
      {"inputs of", kComposite, swap_any},
      {"attribute of", kComposite, other_attribute},
      {"operator of", {}, other_operator},
      {"operator of", {}, other_operator},
      {"constant of", kReadConstants, nullptr},
      {"constant of", kReadConstants, nullptr},
      {"constant of", kReadConstants, nullptr},
  };
  return kAll;
}

using GraphPtr = std::shared_ptr<const Graph>;

Tensor flag_tensor(DType dtype, bool set) {
  if (dtype == DType::kI64) return Tensor::of<int64_t>({1}, {set ? 1 : 0});
  if (dtype == DType::kI32) return Tensor::of<int32_t>({1}, {set ? 1 : 0});
  return Tensor::of<bool>({1}, {set});
}

// Whoever read the input reads a constant.
onnx::ValueId fix_input(Graph& graph, onnx::ValueId input, const Tensor& tensor) {
  const auto constant = static_cast<onnx::ValueId>(graph.values.size());
  graph.values.push_back({.name = "fixed flag", .initializer = static_cast<int>(graph.initializers.size()), .type = {}});
  graph.initializers.push_back(stored("fixed flag", tensor));
  for (Node& node : graph.nodes) {
    std::replace(node.inputs.begin(), node.inputs.end(), input, constant);
    std::replace(node.captures.begin(), node.captures.end(), input, constant);
    for (onnx::Attribute& attribute : node.attributes) {
      auto* const inner = std::get_if<GraphPtr>(&attribute.data);
      if (inner == nullptr) continue;
      auto copy = std::make_shared<Graph>(**inner);
      for (onnx::Value& value : copy->values) {
        if (value.outer == input) value.outer = constant;
      }
      *inner = std::move(copy);
    }
  }
  return constant;
}

std::shared_ptr<const onnx::Model> with_graph(const std::shared_ptr<const onnx::Model>& model, GraphPtr graph) {
  auto copy = std::make_shared<onnx::Model>(*model);
  copy->graph = std::move(graph);
  // Names that the graph was given while it was read belong to the original.
  return {copy.get(), [copy, model](const onnx::Model*) {}};
}

// Changes a node of the graph, or a constant that it reads, which may be in the enclosing graph; false if the draw found nothing to change.
bool change(Graph& graph, Graph& outer, const Mutation& mutation, std::mt19937& random, std::string& what) {
  std::vector<size_t> nodes;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const bool listed = std::find(mutation.on.begin(), mutation.on.end(), graph.nodes[i].op) != mutation.on.end();
    if (listed || (mutation.on.empty() && graph.nodes[i].domain.empty())) nodes.push_back(i);
  }
  if (nodes.empty()) return false;
  Node& node = graph.nodes[any_of(random, nodes)];
  what = fmt::format("{} {}", mutation.name, node.describe());
  if (mutation.apply != nullptr) return mutation.apply(node, random);
  if (node.inputs.empty()) return false;
  const onnx::ValueId id = any_of(random, node.inputs);
  if (id == onnx::kNoValue) return false;
  const onnx::ValueId captured = graph.value(id).outer;
  return captured != onnx::kNoValue ? other_constant(outer, captured, random) : other_constant(graph, id, random);
}

// The branch of one If on `flag`, as a graph that may be changed.
Graph* branch_of(Graph& graph, onnx::ValueId flag, bool set, std::mt19937& random) {
  std::vector<Node*> choices;
  for (Node& node : graph.nodes) {
    if (node.op == "If" && node.inputs.at(0) == flag) choices.push_back(&node);
  }
  if (choices.empty()) return nullptr;
  Node& choice = *any_of(random, choices);
  auto branch = std::make_shared<Graph>(choice.graph(set ? "then_branch" : "else_branch"));
  Graph* const result = branch.get();
  testing_support::set(choice, set ? "then_branch" : "else_branch", GraphPtr(std::move(branch)));
  return result;
}

}  // namespace

std::optional<Mutant> mutate(const analysis::File& file, std::mt19937& random) {
  const std::shared_ptr<const onnx::Model>& model = file.model;
  auto graph = std::make_shared<Graph>(*model->graph);
  const Mutation& mutation = any_of(random, mutations());
  Mutant mutant;
  Graph* changed = graph.get();
  if (file.stage == analysis::Stage::kDecoderMerged) {
    const analysis::Port* flag = file.input_of(analysis::Role::kUseCacheBranch);
    if (flag == nullptr) return {};
    const auto input = graph->inputs.at(static_cast<size_t>(flag - file.inputs.data()));
    mutant.cached_branch = random() % 2 == 0;
    const onnx::ValueId fixed = fix_input(*graph, input, flag_tensor(flag->dtype, mutant.cached_branch));
    changed = branch_of(*graph, fixed, mutant.cached_branch, random);
    if (changed == nullptr) return {};
  }
  if (!change(*changed, *graph, mutation, random, mutant.what)) return {};
  if (changed != graph.get()) mutant.what += mutant.cached_branch ? " with a past" : " without a past";
  mutant.model = with_graph(model, std::move(graph));
  return mutant;
}

std::shared_ptr<const onnx::Model> with_rounded_weights(const std::shared_ptr<const onnx::Model>& model, std::mt19937& random) {
  auto graph = std::make_shared<Graph>(*model->graph);
  for (onnx::TensorData& data : graph->initializers) {
    if (data.dtype != DType::kF32 || data.n_elements <= 8) continue;
    Tensor tensor = load(data);
    for (float& number : tensor.mutable_data<float>()) number = std::nextafter(number, random() % 2 == 0 ? 1e30f : -1e30f);
    data = stored(data.name, tensor);
  }
  return with_graph(model, std::move(graph));
}

}  // namespace kvik::testing_support

#include "backend/native/label/value_numbers.h"

#include <cstring>

#include "backend/native/probe/evaluation.h"

namespace kvik::native {
namespace {

using onnx::Node;
using onnx::NodeId;
using onnx::ValueId;

constexpr size_t kLargestByContent = size_t{1} << 22;  // bytes: a baked-in mask of 2048 positions
constexpr size_t kWholeSample = 256;                   // bytes of a constant that are its key themselves
constexpr size_t kSamples = 16;                        // bytes of a larger one

void append(std::string& key, const void* data, size_t n_bytes) { key.append(static_cast<const char*>(data), n_bytes); }

template <class T>
void append(std::string& key, T number) {
  append(key, &number, sizeof number);
}

void append(std::string& key, std::string_view text) {
  append(key, text.size());
  key += text;
}

void append(std::string& key, const onnx::TensorData& tensor) {
  append(key, tensor.dtype);
  append(key, tensor.dims.size());
  for (const int64_t dim : tensor.dims) append(key, dim);
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.size_bytes() == b.size_bytes() && std::memcmp(a.bytes().data(), b.bytes().data(), a.size_bytes()) == 0;
}

bool takes_shape(const Node& node) { return node.domain.empty() && (node.op == "Shape" || node.op == "Size") && !node.inputs.empty(); }

}  // namespace

int ValueNumbers::intern(const std::string& key) { return known_.try_emplace(key, static_cast<int>(known_.size())).first->second; }

// Two constants with equal samples are compared as a whole, so that equal numbers mean equal contents.
int ValueNumbers::number_constant(const onnx::TensorData& data) {
  std::string key = "constant";
  append(key, data);
  if (data.dtype == DType::kString || data.stored.size() > kLargestByContent) {
    append(key, data.stored.data());
    return intern(key);
  }
  const Tensor tensor = onnx::load(data);
  const std::span<const std::byte> bytes = tensor.bytes();
  if (bytes.size() <= kWholeSample) {
    append(key, bytes.data(), bytes.size());
    return intern(key);
  }
  for (size_t i = 0; i < kSamples; ++i) key += static_cast<char>(bytes[i * (bytes.size() - 1) / (kSamples - 1)]);
  std::vector<std::pair<Tensor, int>>& alike = constants_[key];
  for (const auto& [other, number] : alike) {
    if (same_bytes(other, tensor)) return number;
  }
  append(key, alike.size());
  alike.emplace_back(tensor, intern(key));
  return alike.back().second;
}

bool ValueNumbers::is_leaf(ValueId id) const {
  const onnx::Value& value = labels_->flat->graph.value(id);
  if (value.initializer >= 0 || value.producer == onnx::kNoNode) return true;
  const bool labeled = static_cast<size_t>(id) < labels_->of_value.size();
  return labeled && (*labels_)[id].kind == Label::Kind::kRow && !(*labels_)[id].is_score;
}

int ValueNumbers::number_leaf(ValueId id) {
  if (const onnx::TensorData* data = labels_->flat->graph.initializer_of(id)) return number_constant(*data);
  std::string key = "value";
  append(key, id);
  return intern(key);
}

// Attributes in one form each; a graph is the same only if it is stored once.
struct AttributeKey {
  std::string& key;

  void operator()(std::monostate) const {}
  void operator()(float x) const { append(key, x); }
  void operator()(int64_t x) const { append(key, x); }
  void operator()(std::string_view x) const { append(key, x); }
  void operator()(const onnx::TensorData& x) const {
    append(key, x);
    const Tensor tensor = x.dtype == DType::kString ? Tensor() : onnx::load(x);
    if (tensor.defined() && tensor.size_bytes() <= kLargestByContent) {
      append(key, tensor.bytes().data(), tensor.size_bytes());
    } else {
      append(key, x.stored.data());
    }
  }
  void operator()(const std::shared_ptr<const onnx::Graph>& x) const { append(key, x.get()); }
  template <class T>
  void operator()(const std::vector<T>& list) const {
    append(key, list.size());
    for (const T& x : list) (*this)(x);
  }
};

std::string ValueNumbers::node_key(const Node& node, const Numbers& local) {
  std::string key;
  append(key, node.domain);
  append(key, node.op);
  append(key, node.opset);
  const auto add = [&](ValueId id) {
    if (id == onnx::kNoValue) return append(key, -1);
    const auto found = local.find(id);
    append(key, found != local.end() ? found->second : of_value_.at(id));
  };
  const bool by_axes = takes_shape(node) && static_cast<size_t>(node.inputs[0]) < labels_->of_value.size() &&
                       (*labels_)[node.inputs[0]].kind == Label::Kind::kRow;
  append(key, node.inputs.size());
  if (by_axes) {
    append(key, std::string_view(to_string((*labels_)[node.inputs[0]].axes)));
  } else {
    for (const ValueId id : node.inputs) add(id);
  }
  for (const ValueId id : node.captures) add(id);
  for (const onnx::Attribute& attribute : node.attributes) {
    append(key, attribute.name);
    append(key, attribute.data.index());
    std::visit(AttributeKey{key}, attribute.data);
  }
  return key;
}

// Numbers all values that `target` is computed from; those that depend on values in `local` are numbered there and not kept.
void ValueNumbers::number_all(ValueId target, Numbers& local) {
  const onnx::Graph& graph = labels_->flat->graph;
  const auto known = [&](ValueId id) {
    if (local.contains(id) || of_value_.contains(id)) return true;
    if (!is_leaf(id)) return false;
    of_value_[id] = number_leaf(id);
    return true;
  };
  for (const NodeId n : nodes_needed(graph, target, known)) {
    const Node& node = graph.nodes[static_cast<size_t>(n)];
    bool dependent = false;
    for (const ValueId id : node.inputs) dependent = dependent || local.contains(id);
    for (const ValueId id : node.captures) dependent = dependent || local.contains(id);
    std::string key = node_key(node, local);
    const size_t length = key.size();
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == onnx::kNoValue) continue;
      key.resize(length);
      append(key, i);
      (dependent ? local : of_value_)[node.outputs[i]] = intern(key);
    }
  }
}

int ValueNumbers::number(ValueId id) {
  Numbers local;
  number_all(id, local);
  return of_value_.at(id);
}

std::vector<ValueId> ValueNumbers::first_outputs(NodeId id) {
  const std::vector<ValueId>& own = labels_->flat->graph.nodes[static_cast<size_t>(id)].outputs;
  std::vector<ValueId> outputs = own;
  for (ValueId& output : outputs) {
    if (output == onnx::kNoValue) continue;
    const auto found = first_.find(number(output));
    if (found == first_.end()) {
      for (const ValueId mine : own) {
        if (mine != onnx::kNoValue) first_.try_emplace(number(mine), mine);
      }
      return own;
    }
    output = found->second;
  }
  return outputs;
}

std::string ValueNumbers::between(ValueId from, ValueId to) {
  Numbers local = {{from, intern("from " + to_string((*labels_)[from].axes))}};
  number_all(to, local);
  return std::to_string(local.contains(to) ? local.at(to) : of_value_.at(to));
}

}  // namespace kvik::native

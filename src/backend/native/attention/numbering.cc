#include "backend/native/attention/numbering.h"

#include <cstring>
#include <fmt/format.h>

namespace kvik::native {
namespace {

using onnx::Node;
using onnx::NodeId;
using onnx::ValueId;

constexpr int64_t kLargestByContent = int64_t{1} << 22;  // bytes: a baked-in mask of 2048 positions

std::string tensor_key(const onnx::TensorData& data) {
  const auto words = fmt::format("{} {}", dtype_name(data.dtype), kvik::to_string(data.dims));
  if (data.dtype == DType::kString || static_cast<int64_t>(data.stored.size()) > kLargestByContent) {
    return fmt::format("{} at {}", words, static_cast<const void*>(data.stored.data()));
  }
  // Equal numbers must mean equal contents, so the bytes themselves are the key, but for large ones a hash of them and their place's
  // size stand for them: 128 bits do not collide by accident.
  if (data.form == onnx::TensorData::Form::kRaw && data.stored.size() <= 256) return words + " " + std::string(data.stored);
  uint64_t a = 1469598103934665603u, b = 0x9E3779B97F4A7C15u;
  const auto mix = [&](uint64_t x) {
    a = (a ^ x) * 1099511628211u;
    b = (b + x) * 0xBF58476D1CE4E5B9u;
    b ^= b >> 29;
  };
  const Tensor tensor = onnx::load(data);
  const std::span<const std::byte> bytes = tensor.bytes();
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t x = 0;
    std::memcpy(&x, bytes.data() + i, 8);
    mix(x);
  }
  for (; i < bytes.size(); ++i) mix(static_cast<uint64_t>(bytes[i]));
  return fmt::format("{} hash {:x} {:x}", words, a, b);
}

struct AttributeKey {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(float x) const { return fmt::format("{}", x); }
  std::string operator()(int64_t x) const { return fmt::format("{}", x); }
  std::string operator()(std::string_view x) const { return std::string(x); }
  std::string operator()(const onnx::TensorData& x) const { return tensor_key(x); }
  std::string operator()(const std::shared_ptr<const onnx::Graph>& x) const { return fmt::format("{}", static_cast<const void*>(x.get())); }
  template <class T>
  std::string operator()(const std::vector<T>& list) const {
    std::string words;
    for (const T& x : list) words += (*this)(x) + ",";
    return words;
  }
};

}  // namespace

int Numbering::intern(const std::string& key) { return known_.try_emplace(key, static_cast<int>(known_.size())).first->second; }

std::string Numbering::leaf_key(ValueId id) {
  const FlatGraph& flat = *labels_->flat;
  if (const onnx::TensorData* data = flat.graph.initializer_of(id)) return "constant " + tensor_key(*data);
  return fmt::format("value {}", id);
}

bool Numbering::is_leaf(ValueId id) {
  const onnx::Value& value = labels_->flat->graph.value(id);
  if (value.initializer >= 0 || value.producer == onnx::kNoNode) return true;
  const bool labelled = static_cast<size_t>(id) < labels_->of_value.size();
  return labelled && ((*labels_)[id].kind == Label::Kind::kRow && !(*labels_)[id].is_score);
}

std::string Numbering::node_key(const Node& node, const Numbers& local) {
  std::string key = fmt::format("{}.{}.{}(", node.domain, node.op, node.opset);
  const auto add = [&](ValueId id) {
    if (id == onnx::kNoValue) {
      key += "-,";
      return;
    }
    const auto found = local.find(id);
    key += fmt::format("{},", found != local.end() ? found->second : of_value_.at(id));
  };
  const bool takes_shape = node.domain.empty() && (node.op == "Shape" || node.op == "Size") && !node.inputs.empty();
  if (takes_shape && static_cast<size_t>(node.inputs[0]) < labels_->of_value.size() &&
      (*labels_)[node.inputs[0]].kind == Label::Kind::kRow) {
    key += to_string((*labels_)[node.inputs[0]].axes);
  } else {
    for (const ValueId id : node.inputs) add(id);
  }
  key += ")";
  for (const ValueId id : node.captures) add(id);
  for (const onnx::Attribute& attribute : node.attributes) {
    key += fmt::format(" {}={}:{}", attribute.name, attribute.data.index(), std::visit(AttributeKey{}, attribute.data));
  }
  return key;
}

// Numbers everything that `target` is computed from; what depends on the values in `local` is numbered there and not kept.
void Numbering::number_all(ValueId target, Numbers& local) {
  const onnx::Graph& graph = labels_->flat->graph;
  const auto known = [&](ValueId id) {
    if (local.contains(id) || of_value_.contains(id)) return true;
    if (!is_leaf(id)) return false;
    of_value_[id] = intern(leaf_key(id));
    return true;
  };
  for (const NodeId n : nodes_needed(graph, target, known, [](ValueId) {})) {
    const Node& node = graph.nodes[static_cast<size_t>(n)];
    bool dependent = false;
    for (const ValueId id : node.inputs) dependent = dependent || local.contains(id);
    for (const ValueId id : node.captures) dependent = dependent || local.contains(id);
    const std::string key = node_key(node, local);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != onnx::kNoValue) (dependent ? local : of_value_)[node.outputs[i]] = intern(fmt::format("{} #{}", key, i));
    }
  }
}

int Numbering::number(ValueId id) {
  Numbers local;
  number_all(id, local);
  return of_value_.at(id);
}

std::string Numbering::between(ValueId from, ValueId to) {
  Numbers local = {{from, intern("from " + to_string((*labels_)[from].axes))}};
  number_all(to, local);
  return fmt::format("{}", local.contains(to) ? local.at(to) : of_value_.at(to));
}

}  // namespace kvik::native

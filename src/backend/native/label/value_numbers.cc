#include "backend/native/label/value_numbers.h"

#include <cstring>

namespace kvik::native {
namespace {

constexpr size_t kLargestCompared = 4096;  // bytes of a constant; larger ones are the same only where they are stored once

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
  append(key, tensor.form);
  // The name is a part of the stored message in one form, which only makes two equal constants look different.
  if (tensor.stored.size() <= kLargestCompared) {
    append(key, tensor.stored);
  } else {
    append(key, tensor.stored.data());
  }
}

// False for what is never the same: graphs.
bool append(std::string& key, const onnx::Attribute& attribute) {
  append(key, attribute.name);
  append(key, attribute.data.index());
  return std::visit(
      [&](const auto& data) {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return true;
        } else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, int64_t> || std::is_same_v<T, std::string_view> ||
                             std::is_same_v<T, onnx::TensorData>) {
          append(key, data);
          return true;
        } else if constexpr (std::is_same_v<T, std::shared_ptr<const onnx::Graph>> ||
                             std::is_same_v<T, std::vector<std::shared_ptr<const onnx::Graph>>>) {
          return false;
        } else {
          append(key, data.size());
          for (const auto& one : data) append(key, one);
          return true;
        }
      },
      attribute.data);
}

}  // namespace

std::string ValueNumbers::key_of(const onnx::Node& node) const {
  const onnx::Graph& graph = labels_->flat->graph;
  std::string key;
  append(key, node.op);
  append(key, node.domain);
  append(key, node.opset);
  append(key, node.outputs.size());
  for (const onnx::ValueId output : node.outputs) append(key, output != onnx::kNoValue);
  append(key, node.inputs.size());
  const bool is_shape = node.domain.empty() && (node.op == "Shape" || node.op == "Size");
  for (const onnx::ValueId input : node.inputs) {
    const onnx::TensorData* constant = input == onnx::kNoValue ? nullptr : graph.initializer_of(input);
    if (is_shape && input != onnx::kNoValue && (*labels_)[input].kind == Label::Kind::kRow) {
      append(key, std::string_view(to_string((*labels_)[input].axes)));
    } else if (constant != nullptr) {
      append(key, onnx::kNoValue - 1);
      append(key, *constant);
    } else {
      append(key, input);
    }
  }
  for (const onnx::Attribute& attribute : node.attributes) {
    if (!append(key, attribute)) return {};
  }
  return key;
}

onnx::NodeId ValueNumbers::same_as(onnx::NodeId id) {
  const std::string key = key_of(labels_->flat->graph.nodes[static_cast<size_t>(id)]);
  return key.empty() ? id : seen_.emplace(key, id).first->second;
}

}  // namespace kvik::native

#include "support/model_writer.h"

#include <protozero/pbf_writer.hpp>

namespace kvik::testing_support {
namespace {

using protozero::pbf_writer;

std::string value_info(const std::string& name, DType dtype, const std::vector<std::string>& dims) {
  std::string shape;
  for (const std::string& text : dims) {
    std::string dim;
    const bool number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    if (number) {
      pbf_writer(dim).add_int64(1, std::stoll(text));
    } else {
      pbf_writer(dim).add_string(2, text);
    }
    pbf_writer(shape).add_message(1, dim);
  }
  std::string tensor, type, info;
  pbf_writer tensor_writer(tensor);
  tensor_writer.add_int32(1, static_cast<int32_t>(dtype));
  tensor_writer.add_message(2, shape);
  pbf_writer(type).add_message(1, tensor);
  pbf_writer writer(info);
  writer.add_string(1, name);
  writer.add_message(2, type);
  return info;
}

std::string tensor_header(const std::string& name, DType dtype, const std::vector<int64_t>& dims) {
  std::string bytes;
  pbf_writer writer(bytes);
  for (const int64_t dim : dims) writer.add_int64(1, dim);
  writer.add_int32(2, static_cast<int32_t>(dtype));
  writer.add_string(8, name);
  return bytes;
}

std::string entry(const std::string& key, const std::string& value) {
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_string(1, key);
  writer.add_string(2, value);
  return bytes;
}

std::string int_attribute(const std::string& name, int64_t value) {
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_string(1, name);
  writer.add_int64(3, value);
  writer.add_int32(20, 2);
  return bytes;
}

std::string int_list_attribute(const std::string& name, const std::vector<int64_t>& values) {
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_string(1, name);
  for (const int64_t value : values) writer.add_int64(8, value);
  writer.add_int32(20, 7);
  return bytes;
}

std::string node_message(const ModelWriter::Node& node) {
  std::string bytes;
  pbf_writer writer(bytes);
  for (const std::string& input : node.inputs) writer.add_string(1, input);
  for (const std::string& output : node.outputs) writer.add_string(2, output);
  writer.add_string(3, node.outputs.empty() ? node.op : "make_" + node.outputs.front());
  writer.add_string(4, node.op);
  for (const auto& [name, value] : node.ints) writer.add_message(5, int_attribute(name, value));
  for (const auto& [name, values] : node.int_lists) writer.add_message(5, int_list_attribute(name, values));
  if (!node.domain.empty()) writer.add_string(7, node.domain);
  return bytes;
}

std::string opset_import(const std::string& domain, int64_t version) {
  std::string bytes;
  pbf_writer writer(bytes);
  if (!domain.empty()) writer.add_string(1, domain);
  writer.add_int64(2, version);
  return bytes;
}

std::string model_message(const std::string& graph, int64_t ir_version, int64_t opset, const std::vector<std::string>& functions) {
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_int64(1, ir_version);
  writer.add_message(7, graph);
  writer.add_message(8, opset_import("", opset));
  writer.add_message(8, opset_import("com.microsoft", 1));
  for (const std::string& function : functions) writer.add_message(25, function);
  return bytes;
}

}  // namespace

void ModelWriter::input(const std::string& name, DType dtype, const std::vector<std::string>& dims) {
  inputs_.push_back(value_info(name, dtype, dims));
}
void ModelWriter::output(const std::string& name, DType dtype, const std::vector<std::string>& dims) {
  outputs_.push_back(value_info(name, dtype, dims));
}

void ModelWriter::weight(const std::string& name, DType dtype, const std::vector<int64_t>& dims, const std::string& raw) {
  std::string bytes = tensor_header(name, dtype, dims);
  pbf_writer(bytes).add_bytes(9, raw);
  initializers_.push_back(bytes);
}

void ModelWriter::weight_without_data(const std::string& name, DType dtype, const std::vector<int64_t>& dims) {
  initializers_.push_back(tensor_header(name, dtype, dims));
}

void ModelWriter::external_weight(const std::string& name, DType dtype, const std::vector<int64_t>& dims, const std::string& file,
                                  int64_t offset) {
  std::string bytes = tensor_header(name, dtype, dims);
  pbf_writer writer(bytes);
  writer.add_message(13, entry("location", file));
  writer.add_message(13, entry("offset", std::to_string(offset)));
  writer.add_int32(14, 1);
  initializers_.push_back(bytes);
}

void ModelWriter::function(const std::string& domain, const std::string& name, const std::vector<std::string>& inputs,
                           const std::vector<std::string>& outputs, const std::vector<Node>& nodes) {
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_string(1, name);
  for (const std::string& input : inputs) writer.add_string(4, input);
  for (const std::string& output : outputs) writer.add_string(5, output);
  for (const Node& node : nodes) writer.add_message(7, node_message(node));
  writer.add_message(9, opset_import("", opset));
  writer.add_string(10, domain);
  functions_.push_back(bytes);
}

std::string ModelWriter::bytes() const {
  std::string graph;
  pbf_writer writer(graph);
  for (const Node& node : nodes_) writer.add_message(1, node_message(node));
  writer.add_string(2, "main");
  for (const std::string& weight : initializers_) writer.add_message(5, weight);
  for (const std::string& input : inputs_) writer.add_message(11, input);
  for (const std::string& output : outputs_) writer.add_message(12, output);
  return model_message(graph, ir_version, opset, functions_);
}

std::string nested_model(int depth) {
  std::string graph;
  pbf_writer(graph).add_string(2, "innermost");
  for (int i = 0; i < depth; ++i) {
    std::string attribute, node, outer;
    pbf_writer attribute_writer(attribute);
    attribute_writer.add_string(1, "then_branch");
    attribute_writer.add_message(6, graph);
    attribute_writer.add_int32(20, 5);
    pbf_writer node_writer(node);
    node_writer.add_string(4, "If");
    node_writer.add_message(5, attribute);
    pbf_writer(outer).add_message(1, node);
    graph = outer;
  }
  return model_message(graph, 9, 18, {});
}

}  // namespace kvik::testing_support

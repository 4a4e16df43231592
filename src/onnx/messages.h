#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx/external_data.h"
#include "onnx/graph.h"

// The protobuf messages of an ONNX file: names are still strings, functions are still calls. Only used to build a graph.
namespace kvik::onnx {

struct GraphMessage;

struct AttributeMessage {
  std::string_view name;
  std::string_view reference;  // inside a function: the name of the function attribute to use here
  Attribute::Data data;        // without graphs
  std::vector<std::shared_ptr<const GraphMessage>> graphs;
  bool is_graph_list = false;
};

struct NodeMessage {
  std::string_view op, domain, name, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<AttributeMessage> attributes;
};

struct ValueInfoMessage {
  std::string_view name;
  std::optional<ValueType> type;
};

struct GraphMessage {
  std::string_view name;
  std::vector<NodeMessage> nodes;
  std::vector<TensorData> initializers;
  std::vector<ValueInfoMessage> inputs, outputs, value_infos;
};

using OpsetImports = std::map<std::string_view, int64_t>;

struct FunctionMessage {
  std::string_view domain, name, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<AttributeMessage> attribute_defaults;
  std::vector<NodeMessage> nodes;
  OpsetImports opsets;
};

struct ModelMessage {
  int64_t ir_version = 0;
  std::string_view producer_name, producer_version;
  OpsetImports opsets;
  std::vector<std::pair<std::string_view, std::string_view>> metadata;
  std::optional<GraphMessage> graph;
  std::vector<FunctionMessage> functions;
};

// What parsing needs besides the bytes.
struct ParseContext {
  std::shared_ptr<const void> owner;  // of the bytes
  ExternalData& external;
};

// Throws Error(kBadModel) or protozero::exception for invalid bytes.
ModelMessage parse_model(std::string_view bytes, ParseContext& context);

// A single TensorProto, as in test data files.
TensorData parse_tensor(std::string_view bytes, ParseContext& context);

// A StringStringEntryProto: key and value.
std::pair<std::string_view, std::string_view> parse_entry(std::string_view bytes);

}  // namespace kvik::onnx

#include "backend/ort/small_graphs.h"

#include <protozero/pbf_writer.hpp>
#include <span>

namespace kvik::backend::ort {
namespace {

using protozero::pbf_writer;

constexpr int64_t kIrVersion = 8, kOpset = 13;  // supported by every runtime that can be opened

// Field numbers of onnx.proto.
enum ModelField { kModelIr = 1, kModelGraph = 7, kModelOpset = 8 };
enum OpsetField { kOpsetVersion = 2 };
enum GraphField { kGraphNode = 1, kGraphName = 2, kGraphInitializer = 5, kGraphInput = 11, kGraphOutput = 12 };
enum NodeField { kNodeInput = 1, kNodeOutput = 2, kNodeOp = 4, kNodeAttribute = 5 };
enum AttributeField { kAttributeName = 1, kAttributeInt = 3, kAttributeType = 20 };
enum TensorField { kTensorDims = 1, kTensorType = 2, kTensorInts = 7, kTensorName = 8 };
enum ValueField { kValueName = 1, kValueType = 2 };
enum TypeField { kTypeTensor = 1, kTypeTensorElement = 1 };
constexpr int kAttributeIsInt = 2;

void add_value(pbf_writer& graph, GraphField field, const char* name, DType dtype) {
  pbf_writer value(graph, field);
  value.add_string(kValueName, name);
  pbf_writer type(value, kValueType);
  pbf_writer tensor(type, kTypeTensor);
  tensor.add_int32(kTypeTensorElement, static_cast<int>(dtype));
}

void add_int64s(pbf_writer& graph, const char* name, std::span<const int64_t> values) {
  pbf_writer tensor(graph, kGraphInitializer);
  tensor.add_int64(kTensorDims, static_cast<int64_t>(values.size()));
  tensor.add_int32(kTensorType, static_cast<int>(DType::kI64));
  tensor.add_packed_int64(kTensorInts, values.begin(), values.end());
  tensor.add_string(kTensorName, name);
}

pbf_writer add_node(pbf_writer& graph, const char* op, std::span<const char* const> inputs, const char* output) {
  pbf_writer node(graph, kGraphNode);
  for (const char* input : inputs) node.add_string(kNodeInput, input);
  node.add_string(kNodeOutput, output);
  node.add_string(kNodeOp, op);
  return node;
}

template <class Fill>
std::string model_of(const Fill& fill) {
  std::string bytes;
  pbf_writer model(bytes);
  model.add_int64(kModelIr, kIrVersion);
  pbf_writer(model, kModelOpset).add_int64(kOpsetVersion, kOpset);
  {
    pbf_writer graph(model, kModelGraph);
    graph.add_string(kGraphName, "kvik");
    fill(graph);
  }
  return bytes;
}

}  // namespace

std::string copy_graph(DType dtype) {
  return model_of([&](pbf_writer& graph) {
    const char* inputs[] = {kSmallInput};
    add_node(graph, "Identity", inputs, kSmallOutput);
    add_value(graph, kGraphInput, kSmallInput, dtype);
    add_value(graph, kGraphOutput, kSmallOutput, dtype);
  });
}

std::string select_graph(DType dtype, int axis, int position_axis) {
  const bool cuts = position_axis >= 0;
  return model_of([&](pbf_writer& graph) {
    {
      const char* inputs[] = {kSmallInput, kSmallEntries};
      pbf_writer gather = add_node(graph, "Gather", inputs, cuts ? "gathered" : kSmallOutput);
      pbf_writer attribute(gather, kNodeAttribute);
      attribute.add_string(kAttributeName, "axis");
      attribute.add_int64(kAttributeInt, axis);
      attribute.add_int32(kAttributeType, kAttributeIsInt);
    }
    if (cuts) {
      const char* inputs[] = {"gathered", "zero", kSmallPositions, "axes"};
      add_node(graph, "Slice", inputs, kSmallOutput);
      const int64_t zero[] = {0}, axes[] = {position_axis};
      add_int64s(graph, "zero", zero);
      add_int64s(graph, "axes", axes);
    }
    add_value(graph, kGraphInput, kSmallInput, dtype);
    add_value(graph, kGraphInput, kSmallEntries, DType::kI64);
    if (cuts) add_value(graph, kGraphInput, kSmallPositions, DType::kI64);
    add_value(graph, kGraphOutput, kSmallOutput, dtype);
  });
}

}  // namespace kvik::backend::ort

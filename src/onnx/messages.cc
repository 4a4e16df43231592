#include "onnx/messages.h"

#include <fmt/format.h>

#include "kvik/error.h"
#include "onnx/wire.h"

namespace kvik::onnx {
namespace {

constexpr int kDeepestNesting = 64;  // of graphs and of types; real files have two or three levels

enum class ModelField : protobuf::pbf_tag_type {
  kIrVersion = 1,
  kProducerName = 2,
  kProducerVersion = 3,
  kGraph = 7,
  kOpsetImport = 8,
  kMetadata = 14,
  kFunction = 25,
};
enum class OpsetField : protobuf::pbf_tag_type { kDomain = 1, kVersion = 2 };
enum class EntryField : protobuf::pbf_tag_type { kKey = 1, kValue = 2 };
enum class GraphField : protobuf::pbf_tag_type {
  kNode = 1,
  kName = 2,
  kInitializer = 5,
  kInput = 11,
  kOutput = 12,
  kValueInfo = 13,
  kSparseInitializer = 15,
};
enum class NodeField : protobuf::pbf_tag_type { kInput = 1, kOutput = 2, kName = 3, kOp = 4, kAttribute = 5, kDomain = 7, kOverload = 8 };
enum class AttributeField : protobuf::pbf_tag_type {
  kName = 1,
  kFloat = 2,
  kInt = 3,
  kString = 4,
  kTensor = 5,
  kGraph = 6,
  kFloats = 7,
  kInts = 8,
  kStrings = 9,
  kTensors = 10,
  kGraphs = 11,
  kType = 20,
  kReference = 21,
};
enum class AttributeType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
};
enum class ValueInfoField : protobuf::pbf_tag_type { kName = 1, kType = 2 };
enum class TypeField : protobuf::pbf_tag_type { kTensor = 1, kSequence = 4, kMap = 5, kSparseTensor = 8, kOptional = 9 };
enum class TensorTypeField : protobuf::pbf_tag_type { kElement = 1, kShape = 2 };
enum class ShapeField : protobuf::pbf_tag_type { kDim = 1 };
enum class DimField : protobuf::pbf_tag_type { kValue = 1, kSymbol = 2 };
enum class FunctionField : protobuf::pbf_tag_type {
  kName = 1,
  kInput = 4,
  kOutput = 5,
  kNode = 7,
  kOpsetImport = 9,
  kDomain = 10,
  kAttributeDefault = 11,
  kOverload = 13,
};

constexpr std::string_view kNoText;

std::string_view normal_domain(std::string_view domain) { return domain == "ai.onnx" ? kNoText : domain; }

DType dtype_of(int64_t number, std::string_view where) {
  if (number >= 1 && number <= kLastDType) return static_cast<DType>(number);
  throw Error(Code::kBadModel, fmt::format("{} has unknown element type {}; expected 1 to {}", where, number, kLastDType));
}

// ---- types of values

std::vector<Dim> parse_shape(std::string_view bytes) {
  std::vector<Dim> dims;
  auto shape = message_of<ShapeField>(bytes);
  while (shape.next(ShapeField::kDim, kBytes)) {
    Dim dim;
    auto message = message_of<DimField>(bytes_of(shape));
    while (message.next()) {
      switch (message.tag_and_type()) {
        case tag_and_type(DimField::kValue, kVarint): dim.value = message.get_int64(); break;
        case tag_and_type(DimField::kSymbol, kBytes): dim.symbol = bytes_of(message); break;
        default: message.skip();
      }
    }
    if (dim.value < 0) dim.value = -1;  // some exporters write -1 for unknown
    dims.push_back(dim);
  }
  return dims;
}

ValueType parse_type(std::string_view bytes, std::string_view name) {
  ValueType type;
  auto message = message_of<TypeField>(bytes);
  while (message.next()) {
    switch (message.tag()) {
      case TypeField::kTensor: {
        type.kind = ValueType::Kind::kTensor;
        require_wire_type(message, kBytes);
        auto tensor = message_of<TensorTypeField>(bytes_of(message));
        while (tensor.next()) {
          switch (tensor.tag_and_type()) {
            case tag_and_type(TensorTypeField::kElement, kVarint):
              if (const int64_t number = tensor.get_int32(); number != 0) type.dtype = dtype_of(number, fmt::format("value '{}'", name));
              break;
            case tag_and_type(TensorTypeField::kShape, kBytes): type.dims = parse_shape(bytes_of(tensor)); break;
            default: tensor.skip();
          }
        }
        break;
      }
      case TypeField::kSequence:
        type.kind = ValueType::Kind::kSequence;
        message.skip();
        break;
      case TypeField::kMap:
        type.kind = ValueType::Kind::kMap;
        message.skip();
        break;
      case TypeField::kSparseTensor:
        type.kind = ValueType::Kind::kSparseTensor;
        message.skip();
        break;
      case TypeField::kOptional:
        type.kind = ValueType::Kind::kOptional;
        message.skip();
        break;
      default: message.skip();
    }
  }
  return type;
}

ValueInfoMessage parse_value_info(std::string_view bytes) {
  ValueInfoMessage info;
  std::string_view type;
  auto message = message_of<ValueInfoField>(bytes);
  while (message.next()) {
    switch (message.tag_and_type()) {
      case tag_and_type(ValueInfoField::kName, kBytes): info.name = bytes_of(message); break;
      case tag_and_type(ValueInfoField::kType, kBytes): type = bytes_of(message); break;
      default: message.skip();
    }
  }
  if (type.data() != nullptr) info.type = parse_type(type, info.name);
  return info;
}

void parse_opset(std::string_view bytes, OpsetImports& opsets) {
  std::string_view domain;
  int64_t version = 0;
  auto message = message_of<OpsetField>(bytes);
  while (message.next()) {
    switch (message.tag_and_type()) {
      case tag_and_type(OpsetField::kDomain, kBytes): domain = bytes_of(message); break;
      case tag_and_type(OpsetField::kVersion, kVarint): version = message.get_int64(); break;
      default: message.skip();
    }
  }
  opsets[normal_domain(domain)] = version;
}

// ---- attributes, nodes, graphs (mutually recursive)

class Parser {
 public:
  explicit Parser(ParseContext& context) : context_(context) {}

  NodeMessage node(std::string_view bytes) {
    NodeMessage result;
    auto message = message_of<NodeField>(bytes);
    while (message.next()) {
      switch (message.tag_and_type()) {
        case tag_and_type(NodeField::kInput, kBytes): result.inputs.push_back(bytes_of(message)); break;
        case tag_and_type(NodeField::kOutput, kBytes): result.outputs.push_back(bytes_of(message)); break;
        case tag_and_type(NodeField::kName, kBytes): result.name = bytes_of(message); break;
        case tag_and_type(NodeField::kOp, kBytes): result.op = bytes_of(message); break;
        case tag_and_type(NodeField::kDomain, kBytes): result.domain = normal_domain(bytes_of(message)); break;
        case tag_and_type(NodeField::kOverload, kBytes): result.overload = bytes_of(message); break;
        case tag_and_type(NodeField::kAttribute, kBytes): result.attributes.push_back(attribute(bytes_of(message))); break;
        default: message.skip();
      }
    }
    if (result.op.empty()) throw Error(Code::kBadModel, fmt::format("node '{}' has no operator", result.name));
    return result;
  }

  AttributeMessage attribute(std::string_view bytes);
  GraphMessage graph(std::string_view bytes);

  FunctionMessage function(std::string_view bytes) {
    FunctionMessage result;
    auto message = message_of<FunctionField>(bytes);
    while (message.next()) {
      switch (message.tag_and_type()) {
        case tag_and_type(FunctionField::kName, kBytes): result.name = bytes_of(message); break;
        case tag_and_type(FunctionField::kDomain, kBytes): result.domain = normal_domain(bytes_of(message)); break;
        case tag_and_type(FunctionField::kOverload, kBytes): result.overload = bytes_of(message); break;
        case tag_and_type(FunctionField::kInput, kBytes): result.inputs.push_back(bytes_of(message)); break;
        case tag_and_type(FunctionField::kOutput, kBytes): result.outputs.push_back(bytes_of(message)); break;
        case tag_and_type(FunctionField::kNode, kBytes): result.nodes.push_back(node(bytes_of(message))); break;
        case tag_and_type(FunctionField::kOpsetImport, kBytes): parse_opset(bytes_of(message), result.opsets); break;
        case tag_and_type(FunctionField::kAttributeDefault, kBytes):
          result.attribute_defaults.push_back(attribute(bytes_of(message)));
          break;
        default: message.skip();
      }
    }
    return result;
  }

 private:
  ParseContext& context_;
  int depth_ = 0;
};

// The fields of an attribute, before its declared type selects one: a zero is often not written.
struct AttributeFields {
  AttributeType type = AttributeType::kUndefined;
  float f = 0;
  int64_t i = 0;
  std::string_view s;
  std::vector<TensorData> tensor_one, tensors;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string_view> strings;
  AttributeType seen = AttributeType::kUndefined;  // IR before 2017 declared no type
};

Attribute::Data data_of(AttributeFields& fields, std::string_view name) {
  switch (fields.type) {
    case AttributeType::kFloat: return fields.f;
    case AttributeType::kInt: return fields.i;
    case AttributeType::kString: return fields.s;
    case AttributeType::kTensor:
      if (fields.tensor_one.empty()) throw Error(Code::kBadModel, fmt::format("attribute '{}' is declared as a tensor but has none", name));
      return std::move(fields.tensor_one.back());
    case AttributeType::kFloats: return std::move(fields.floats);
    case AttributeType::kInts: return std::move(fields.ints);
    case AttributeType::kStrings: return std::move(fields.strings);
    case AttributeType::kTensors: return std::move(fields.tensors);
    default: return std::monostate();  // graphs are handled separately; sparse tensors and types are not used
  }
}

template <class Reader, class Value, class One, class Many>
void append_numbers(Reader& reader, std::vector<Value>& values, One one, Many many) {
  if (reader.wire_type() != kBytes) {
    values.push_back(one(reader));
    return;
  }
  for (const auto value : many(reader)) values.push_back(value);
}

template <class Reader>
void require_wire_type_of_attribute(const Reader& reader) {
  switch (reader.tag()) {
    case AttributeField::kType:
    case AttributeField::kInt: return require_wire_type(reader, kVarint);
    case AttributeField::kInts: return require_wire_type(reader, kVarint, true);
    case AttributeField::kFloat: return require_wire_type(reader, kFixed32);
    case AttributeField::kFloats: return require_wire_type(reader, kFixed32, true);
    case AttributeField::kName:
    case AttributeField::kString:
    case AttributeField::kTensor:
    case AttributeField::kGraph:
    case AttributeField::kStrings:
    case AttributeField::kTensors:
    case AttributeField::kGraphs:
    case AttributeField::kReference: return require_wire_type(reader, kBytes);
  }
}

AttributeMessage Parser::attribute(std::string_view bytes) {
  AttributeMessage result;
  AttributeFields fields;
  auto message = message_of<AttributeField>(bytes);
  while (message.next()) {
    require_wire_type_of_attribute(message);
    switch (message.tag()) {
      case AttributeField::kName: result.name = bytes_of(message); break;
      case AttributeField::kReference: result.reference = bytes_of(message); break;
      case AttributeField::kType: fields.type = static_cast<AttributeType>(message.get_int32()); break;
      case AttributeField::kFloat: fields.f = message.get_float(), fields.seen = AttributeType::kFloat; break;
      case AttributeField::kInt: fields.i = message.get_int64(), fields.seen = AttributeType::kInt; break;
      case AttributeField::kString: fields.s = bytes_of(message), fields.seen = AttributeType::kString; break;
      case AttributeField::kTensor:
        fields.tensor_one.push_back(parse_tensor(bytes_of(message), context_));
        fields.seen = AttributeType::kTensor;
        break;
      case AttributeField::kTensors:
        fields.tensors.push_back(parse_tensor(bytes_of(message), context_));
        fields.seen = AttributeType::kTensors;
        break;
      case AttributeField::kGraph:
        result.graphs = {std::make_shared<const GraphMessage>(graph(bytes_of(message)))};
        fields.seen = AttributeType::kGraph;
        break;
      case AttributeField::kGraphs:
        result.graphs.push_back(std::make_shared<const GraphMessage>(graph(bytes_of(message))));
        fields.seen = AttributeType::kGraphs;
        break;
      case AttributeField::kFloats:
        append_numbers(
            message, fields.floats, [](auto& r) { return r.get_float(); }, [](auto& r) { return r.get_packed_float(); });
        fields.seen = AttributeType::kFloats;
        break;
      case AttributeField::kInts:
        append_numbers(
            message, fields.ints, [](auto& r) { return r.get_int64(); }, [](auto& r) { return r.get_packed_int64(); });
        fields.seen = AttributeType::kInts;
        break;
      case AttributeField::kStrings: fields.strings.push_back(bytes_of(message)), fields.seen = AttributeType::kStrings; break;
      default: message.skip();
    }
  }
  if (fields.type == AttributeType::kUndefined) fields.type = fields.seen;
  result.is_graph_list = fields.type == AttributeType::kGraphs;
  if (result.reference.empty()) result.data = data_of(fields, result.name);
  return result;
}

GraphMessage Parser::graph(std::string_view bytes) {
  if (++depth_ > kDeepestNesting) throw Error(Code::kBadModel, fmt::format("graphs are nested more than {} deep", kDeepestNesting));
  GraphMessage result;
  auto message = message_of<GraphField>(bytes);
  while (message.next()) {
    switch (message.tag_and_type()) {
      case tag_and_type(GraphField::kNode, kBytes): result.nodes.push_back(node(bytes_of(message))); break;
      case tag_and_type(GraphField::kName, kBytes): result.name = bytes_of(message); break;
      case tag_and_type(GraphField::kInitializer, kBytes): result.initializers.push_back(parse_tensor(bytes_of(message), context_)); break;
      case tag_and_type(GraphField::kInput, kBytes): result.inputs.push_back(parse_value_info(bytes_of(message))); break;
      case tag_and_type(GraphField::kOutput, kBytes): result.outputs.push_back(parse_value_info(bytes_of(message))); break;
      case tag_and_type(GraphField::kValueInfo, kBytes): result.value_infos.push_back(parse_value_info(bytes_of(message))); break;
      case tag_and_type(GraphField::kSparseInitializer, kBytes):
        throw Error(Code::kUnsupported, "the model has sparse initializers; export it with dense weights");
      default: message.skip();
    }
  }
  --depth_;
  return result;
}

}  // namespace

std::pair<std::string_view, std::string_view> parse_entry(std::string_view bytes) {
  std::pair<std::string_view, std::string_view> entry;
  auto message = message_of<EntryField>(bytes);
  while (message.next()) {
    switch (message.tag_and_type()) {
      case tag_and_type(EntryField::kKey, kBytes): entry.first = bytes_of(message); break;
      case tag_and_type(EntryField::kValue, kBytes): entry.second = bytes_of(message); break;
      default: message.skip();
    }
  }
  return entry;
}

ModelMessage parse_model(std::string_view bytes, ParseContext& context) {
  ModelMessage result;
  Parser parser(context);
  auto message = message_of<ModelField>(bytes);
  while (message.next()) {
    switch (message.tag_and_type()) {
      case tag_and_type(ModelField::kIrVersion, kVarint): result.ir_version = message.get_int64(); break;
      case tag_and_type(ModelField::kProducerName, kBytes): result.producer_name = bytes_of(message); break;
      case tag_and_type(ModelField::kProducerVersion, kBytes): result.producer_version = bytes_of(message); break;
      case tag_and_type(ModelField::kGraph, kBytes):
        if (result.graph) throw Error(Code::kBadModel, "the file has two graphs; expected one");
        result.graph = parser.graph(bytes_of(message));
        break;
      case tag_and_type(ModelField::kOpsetImport, kBytes): parse_opset(bytes_of(message), result.opsets); break;
      case tag_and_type(ModelField::kMetadata, kBytes): result.metadata.push_back(parse_entry(bytes_of(message))); break;
      case tag_and_type(ModelField::kFunction, kBytes): result.functions.push_back(parser.function(bytes_of(message))); break;
      default: message.skip();
    }
  }
  return result;
}

}  // namespace kvik::onnx

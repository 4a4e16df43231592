#include "onnx/identity.h"

#include "base/hash.h"

namespace kvik::onnx {
namespace {

constexpr size_t kHashedWhole = size_t{64} << 10;
constexpr size_t kPart = size_t{4} << 10;
constexpr size_t kParts = kHashedWhole / kPart;

class Identity {
 public:
  std::string of(const Model& model) {
    add(*model.graph);
    return hash_.hex();
  }

 private:
  void add(const Graph& graph) {
    for (const std::vector<ValueId>* ids : {&graph.inputs, &graph.outputs}) add(*ids);
    for (const Value& value : graph.values) {
      if (value.initializer >= 0) hash_.add(int64_t{value.initializer});
      if (value.outer != kNoValue) hash_.add(int64_t{value.outer});
    }
    for (const TensorData& tensor : graph.initializers) add(tensor);
    for (const Node& node : graph.nodes) {
      hash_.add(node.domain);
      hash_.add(node.op);
      hash_.add(int64_t{node.opset});
      for (const std::vector<ValueId>* ids : {&node.inputs, &node.outputs}) add(*ids);
      for (const Attribute& attribute : node.attributes) {
        hash_.add(attribute.name);
        hash_.add(static_cast<int64_t>(attribute.data.index()));
        std::visit([this](const auto& data) { add(data); }, attribute.data);
      }
    }
  }

  void add(std::monostate) {}
  void add(float value) { hash_.add(std::as_bytes(std::span(&value, 1))); }
  void add(int64_t value) { hash_.add(value); }
  void add(ValueId value) { hash_.add(int64_t{value}); }
  void add(std::string_view text) { hash_.add(text); }
  void add(const std::shared_ptr<const Graph>& graph) { add(*graph); }

  template <class T>
  void add(const std::vector<T>& values) {
    hash_.add(static_cast<int64_t>(values.size()));
    for (const T& value : values) add(value);
  }

  void add(const TensorData& tensor) {
    hash_.add(static_cast<int64_t>(tensor.dtype));
    add(tensor.dims);
    const std::span<const std::byte> bytes = std::as_bytes(std::span(tensor.stored));
    hash_.add(static_cast<int64_t>(bytes.size()));
    if (bytes.size() <= kHashedWhole) return hash_.add(bytes);
    for (size_t i = 0; i < kParts; ++i) hash_.add(bytes.subspan((bytes.size() - kPart) / (kParts - 1) * i, kPart));
  }

  Hash hash_;
};

}  // namespace

std::string identity_of(const Model& model) { return Identity().of(model); }

}  // namespace kvik::onnx

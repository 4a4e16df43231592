#include <cstddef>
#include <cstdint>

#include "kvik/error.h"
#include "onnx/reader.h"

// Any bytes are a model or an Error. Every tensor that was read can be loaded or refused in bounded memory.
namespace {

constexpr int64_t kMostElements = 1 << 20;

void load_all(const kvik::onnx::Graph& graph) {
  for (const kvik::onnx::TensorData& data : graph.initializers) {
    if (data.n_elements > kMostElements) continue;
    try {
      kvik::onnx::load(data);
    } catch (const kvik::Error&) {  // a correct result
    }
  }
  for (const kvik::onnx::Node& node : graph.nodes) {
    for (const kvik::onnx::Attribute& attribute : node.attributes) {
      if (const auto* inner = std::get_if<std::shared_ptr<const kvik::onnx::Graph>>(&attribute.data)) load_all(**inner);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const kvik::onnx::Model model = kvik::onnx::read_model({reinterpret_cast<const std::byte*>(data), size});
    load_all(*model.graph);
  } catch (const kvik::Error&) {}
  return 0;
}

#include "analysis/signature.h"

#include <cstddef>
#include <cstdint>

#include "kvik/error.h"
#include "onnx/reader.h"

// Any readable graph gets roles, or an Error says why not.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto model = std::make_shared<const kvik::onnx::Model>(kvik::onnx::read_model({reinterpret_cast<const std::byte*>(data), size}));
    const kvik::analysis::File file = kvik::analysis::analyze_graph(model);
    int64_t bytes = 0;
    for (const kvik::analysis::State& state : file.states) bytes |= state.bytes_per_token();
    return bytes < 0 ? 1 : 0;
  } catch (const kvik::Error&) { return 0; }
}

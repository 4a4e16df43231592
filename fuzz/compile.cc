#include "backend/native/compile.h"

#include <cstddef>
#include <cstdint>

#include "backend/native/stages.h"
#include "kvik/error.h"
#include "onnx/reader.h"

namespace {

constexpr int64_t kContext = 128;  // bounds the work a mutated graph can ask for

void compile(const kvik::analysis::File& file, kvik::native::CompileOptions options) {
  options.context = kContext;
  try {
    const auto program = kvik::native::compile_file(file, options);
    if (program) kvik::native::make_plan(*program, {});
  } catch (const kvik::Error&) {}
}

}  // namespace

// Any readable graph compiles to a plan in bounded time and memory, or an Error says why not.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto model = std::make_shared<const kvik::onnx::Model>(kvik::onnx::read_model({reinterpret_cast<const std::byte*>(data), size}));
    const kvik::analysis::File file = kvik::analysis::analyze_graph(model);
    compile(file, {});
    compile(file, {.cached_branch = true});
    compile(file, {.one_token = true});
  } catch (const kvik::Error&) {}
  return 0;
}

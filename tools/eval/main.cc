#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>

#include "kvik/error.h"
#include "onnx/eval/evaluator.h"
#include "onnx/reader.h"
#include "tensor_writer.h"

// kvik-eval MODEL INPUTS OUTPUTS: runs MODEL with the reference evaluator on INPUTS/input_0.pb, input_1.pb … (TensorProto, in
// the order of the graph's inputs) and writes OUTPUTS/output_0.pb … Several such triples may follow one another.
namespace {

void run(const std::filesystem::path& path, const std::filesystem::path& inputs, const std::filesystem::path& outputs) {
  const kvik::onnx::Model model = kvik::onnx::read_model(path);
  const kvik::onnx::Graph& graph = *model.graph;
  kvik::onnx::Feeds feeds;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    feeds.emplace(graph.name_of(graph.inputs[i]), kvik::onnx::read_tensor(inputs / fmt::format("input_{}.pb", i)));
  }
  const std::vector<kvik::Tensor> results = kvik::onnx::Evaluator(graph).run(feeds);
  std::filesystem::create_directories(outputs);
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string bytes = serialized(results[i], graph.name_of(graph.outputs[i]));
    std::ofstream(outputs / fmt::format("output_{}.pb", i), std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argc % 3 != 1) {
    std::fputs("usage: kvik-eval MODEL INPUTS OUTPUTS [MODEL INPUTS OUTPUTS …]\n", stderr);
    return 2;
  }
  int status = 0;
  for (int i = 1; i + 2 < argc; i += 3) {
    try {
      run(argv[i], argv[i + 1], argv[i + 2]);
    } catch (const std::exception& e) {
      fmt::print(stderr, "{}: {}\n", argv[i], e.what());
      status = 1;
    }
  }
  return status;
}

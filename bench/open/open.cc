// Time and memory to open a model whose weights are only mapped: 5 GB of external data, and 1.9 GB inside the file. The
// files are sparse, so they take no disk space.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include "onnx/reader.h"

namespace {

using protozero::pbf_writer;
using Clock = std::chrono::steady_clock;

constexpr int kLayers = 40;
constexpr int kRounds = 7;

std::string tensor_header(const std::string& name, int64_t n_elements) {
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_int64(1, n_elements);
  writer.add_int32(2, 1);
  writer.add_string(8, name);
  return bytes;
}

std::string node(const std::string& op, const std::vector<std::string>& inputs, const std::string& output) {
  std::string bytes;
  pbf_writer writer(bytes);
  for (const std::string& input : inputs) writer.add_string(1, input);
  writer.add_string(2, output);
  writer.add_string(4, op);
  return bytes;
}

std::string weight_name(int layer) { return fmt::format("layers.{}.weight", layer); }

// A chain of additions with one weight each.
void add_nodes(pbf_writer& graph) {
  std::string previous = weight_name(0);
  for (int layer = 1; layer < kLayers; ++layer) {
    const std::string next = layer + 1 == kLayers ? "out" : fmt::format("sum.{}", layer);
    graph.add_message(1, node("Add", {previous, weight_name(layer)}, next));
    previous = next;
  }
  std::string output;
  pbf_writer(output).add_string(1, "out");
  graph.add_message(12, output);
}

std::string entry(const std::string& key, const std::string& value) {
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_string(1, key);
  writer.add_string(2, value);
  return bytes;
}

std::string model_around(const std::string& graph_field) {
  std::string model, opset;
  pbf_writer(opset).add_int64(2, 18);
  pbf_writer writer(model);
  writer.add_int64(1, 9);
  writer.add_message(8, opset);
  return model + graph_field;
}

void write_external(const std::filesystem::path& folder, int64_t bytes_per_layer) {
  std::string graph;
  pbf_writer writer(graph);
  add_nodes(writer);
  for (int layer = 0; layer < kLayers; ++layer) {
    std::string tensor = tensor_header(weight_name(layer), bytes_per_layer / 4);
    pbf_writer fields(tensor);
    fields.add_message(13, entry("location", "model.onnx_data"));
    fields.add_message(13, entry("offset", std::to_string(layer * bytes_per_layer)));
    fields.add_message(13, entry("length", std::to_string(bytes_per_layer)));
    fields.add_int32(14, 1);
    writer.add_message(5, tensor);
  }
  std::string field;
  pbf_writer(field).add_message(7, graph);
  std::ofstream(folder / "model.onnx", std::ios::binary) << model_around(field);
  std::ofstream(folder / "model.onnx_data", std::ios::binary).close();
  std::filesystem::resize_file(folder / "model.onnx_data", static_cast<uintmax_t>(kLayers * bytes_per_layer));
}

std::string tag_and_length(uint32_t tag, uint64_t length) {
  std::string bytes;
  protozero::write_varint(std::back_inserter(bytes), (tag << 3) | 2u);
  protozero::write_varint(std::back_inserter(bytes), length);
  return bytes;
}

// The same with the weights inside the file, as holes.
void write_inline(const std::filesystem::path& path, int64_t bytes_per_layer) {
  std::string nodes;
  pbf_writer writer(nodes);
  add_nodes(writer);
  std::vector<std::string> headers;
  uint64_t graph_bytes = nodes.size();
  for (int layer = 0; layer < kLayers; ++layer) {
    const auto raw = static_cast<uint64_t>(bytes_per_layer);
    const std::string inside = tensor_header(weight_name(layer), bytes_per_layer / 4) + tag_and_length(9, raw);
    headers.push_back(tag_and_length(5, inside.size() + raw) + inside);
    graph_bytes += headers.back().size() + raw;
  }
  std::ofstream file(path, std::ios::binary);
  file << model_around(tag_and_length(7, graph_bytes)) << nodes;
  for (const std::string& header : headers) {
    file << header;
    file.seekp(bytes_per_layer, std::ios::cur);
  }
  const auto end = static_cast<uintmax_t>(file.tellp());
  file.close();
  std::filesystem::resize_file(path, end);
}

double resident_mb() {
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0;
  statm >> pages >> pages;
  return static_cast<double>(pages * sysconf(_SC_PAGESIZE)) / 1e6;
}

void measure(const char* what, const std::filesystem::path& path, double gigabytes) {
  std::vector<double> times_ms;
  double resident = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = Clock::now();
    const kvik::onnx::Model model = kvik::onnx::read_model(path);
    times_ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    resident = std::max(resident, resident_mb());
  }
  std::sort(times_ms.begin(), times_ms.end());
  fmt::print("{:<28} {:5.2f} GB   open {:8.2f} ms (median of {})   resident {:6.1f} MB\n", what, gigabytes, times_ms[kRounds / 2], kRounds,
             resident);
}

}  // namespace

int main() {
  std::string pattern = (std::filesystem::temp_directory_path() / "kvik-bench-XXXXXX").string();
  const std::filesystem::path folder = mkdtemp(pattern.data());
  constexpr int64_t kExternalBytes = 128'000'000, kInlineBytes = 48'000'000;
  write_external(folder, kExternalBytes);
  write_inline(folder / "inline.onnx", kInlineBytes);
  measure("weights in external data", folder / "model.onnx", kLayers * kExternalBytes / 1e9);
  measure("weights inside the file", folder / "inline.onnx", kLayers * kInlineBytes / 1e9);
  std::filesystem::remove_all(folder);
}

// Encodes a file several times and prints the CPU seconds of each pass, one per line, then the number of ids; compare.py compares them with
// the tokenizers package. usage: bench-text FOLDER FILE PASSES [CHUNK_BYTES]. If FILE is "-", prints the milliseconds of each load instead.
#include <ctime>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "text/tokenizer.h"

namespace {

// CPU time, so that other work on the machine does not count.
double seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Splits at line ends.
std::vector<std::string_view> chunks_of(std::string_view text, size_t chunk_bytes) {
  std::vector<std::string_view> chunks;
  while (!text.empty()) {
    size_t size = std::min(text.size(), chunk_bytes);
    if (size < text.size()) {
      const size_t line = text.find('\n', size);
      size = line == std::string_view::npos ? text.size() : line + 1;
    }
    chunks.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return chunks;
}

int run(const std::string& folder, const std::string& file, int passes, size_t chunk_bytes) {
  if (file == "-") {
    for (int i = 0; i < passes; ++i) {
      const double start = seconds();
      kvik::text::Tokenizer::load(folder);
      fmt::print("{:.6f}\n", seconds() - start);
    }
    return 0;
  }
  const auto tokenizer = kvik::text::Tokenizer::load(folder);
  const auto mapped = kvik::MappedFile::open(file);
  const auto chunks = chunks_of(mapped->text(), chunk_bytes);
  size_t n_ids = 0;
  for (int i = 0; i < passes; ++i) {
    n_ids = 0;
    const double start = seconds();
    for (const std::string_view chunk : chunks) n_ids += tokenizer->encode(chunk, {.add_special = false}).size();
    fmt::print("{:.6f}\n", seconds() - start);
  }
  fmt::print("{}\n", n_ids);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    fmt::print(stderr, "usage: bench-text FOLDER FILE PASSES [CHUNK_BYTES]\n");
    return 2;
  }
  try {
    return run(argv[1], argv[2], std::stoi(argv[3]), argc > 4 ? std::stoul(argv[4]) : 4096);
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench-text: {}\n", e.what());
    return 1;
  }
}

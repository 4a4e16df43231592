#pragma once

#include <cstdint>
#include <string>

#include "kvik/options.h"

namespace kvik::server {

// Properties of a model from its files, read when the server starts.
struct ModelFacts {
  std::string name;  // in requests
  std::string path;  // as on the command line
  std::string kind;  // "decoder", "encoder-decoder", "encoder"
  int64_t weights_bytes = 0;
  std::string weights_dtype;  // of most of the bytes
  int64_t n_parameters = 0;   // 0: not known, because several share a byte
  int64_t file_bytes = 0;
  int64_t modified = 0;  // Unix time of its files
  std::string digest;    // differs between models
  int64_t max_positions = 0;
  bool reads_features = false;  // speech
};

// Throws Error for a model that cannot be found or whose files cannot be read.
ModelFacts read_facts(const std::string& model, const LoadOptions& load);

// The name in requests: "org/name" is unchanged; of a path, the last component without ".onnx".
std::string model_name(const std::string& model);

}  // namespace kvik::server

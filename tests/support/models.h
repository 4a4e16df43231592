#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/signature.h"
#include "backend/backend.h"
#include "backend/native/native_backend.h"
#include "base/json.h"
#include "base/token.h"
#include "support/paths.h"

namespace kvik::testing_support {

struct DecoderCase {
  std::vector<TokenId> prompt_ids;
  std::vector<TokenId> greedy_ids;
  std::vector<int> logit_indices;  // after the prompt
  std::vector<float> logit_values;
};

// A decoder with known answers: a folder with expected.json (or expect.json) beside the files.
struct KnownDecoder {
  std::string name;
  std::filesystem::path folder;
  std::vector<DecoderCase> cases;
  bool by_onnx_runtime = false;  // weights were converted, and its answers on the very file are the expected ones
};

// Of tests/fixtures, and of the larger data where it is there.
std::vector<KnownDecoder> known_decoders();

std::shared_ptr<backend::Backend> open_reference(const std::filesystem::path& folder);

// The native backend; options as in production but for those given.
std::shared_ptr<backend::Backend> open_native(const std::filesystem::path& folder, const backend::NativeOptions& options = {});

// Null where ONNX Runtime's library is not installed; ./dev test installs it.
std::shared_ptr<backend::Backend> open_ort(const std::filesystem::path& folder);

}  // namespace kvik::testing_support

#define KVIK_NEEDS_ORT(backend) \
  if ((backend) == nullptr) GTEST_SKIP() << "ONNX Runtime is not installed; ./dev test installs it"

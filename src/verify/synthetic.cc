#include "verify/synthetic.h"

#include <algorithm>

#include "base/json.h"

namespace kvik::laws {
namespace {

constexpr int kMaxDepth = 8;
constexpr int64_t kDefaultImage = 224, kDefaultMels = 80, kDefaultFrames = 3000, kFewFrames = 100, kOneSecond = 16000;

// The first number (or the last of a list) with this name, at any depth.
int64_t find_number(const Json& json, const char* name, int depth) {
  if (!json.is_object() || depth > kMaxDepth) return 0;
  if (const auto found = json.find(name); found != json.end()) {
    const Json& value = found->is_array() && !found->empty() ? found->back() : *found;
    if (value.is_number_integer()) return std::clamp<int64_t>(value.get<int64_t>(), 0, 4096);
  }
  for (const auto& [key, inner] : json.items()) {
    if (const int64_t number = find_number(inner, name, depth + 1); number > 0) return number;
  }
  return 0;
}

int64_t config_value(const std::filesystem::path& folder, std::initializer_list<const char*> names, int64_t otherwise) {
  for (const char* file : {"config.json", "preprocessor_config.json"}) {
    if (!std::filesystem::exists(folder / file)) continue;
    const Json json = read_json_file(folder / file);
    for (const char* name : names) {
      if (const int64_t number = find_number(json, name, 0); number > 0) return number;
    }
  }
  return otherwise;
}

int64_t default_size(const analysis::Port& port, const std::filesystem::path& folder, size_t axis) {
  if (port.role == analysis::Role::kPixelValues && port.dims.size() >= 4)
    return axis + 3 == port.dims.size() ? config_value(folder, {"num_channels"}, 3)
                                        : config_value(folder, {"image_size", "height"}, kDefaultImage);
  if (port.dims.size() == 2) return kOneSecond;
  const bool frames_first = port.dims.size() == 3 && port.dims[2].value >= 0;
  if (frames_first) return kFewFrames;
  return axis == 1 ? config_value(folder, {"num_mel_bins", "feature_size"}, kDefaultMels) : kDefaultFrames;
}

constexpr int kPromptTokens = 12;  // enough for every kind of split, few enough for a large model

}  // namespace

std::vector<TokenId> synthetic_prompt(int vocab, int limit) {
  std::vector<TokenId> ids;
  const int n = limit > 0 ? std::min(kPromptTokens, limit) : kPromptTokens;
  for (int i = 0; i < n; ++i) ids.push_back(static_cast<TokenId>((int64_t{i} * 7919 + 31) % vocab));
  return ids;
}

Tensor synthetic_features(const analysis::Port& port, const std::filesystem::path& folder, int seed) {
  Dims dims;
  for (size_t i = 1; i < port.dims.size(); ++i)
    dims.push_back(port.dims[i].value >= 0 ? port.dims[i].value : default_size(port, folder, i));
  Tensor features(DType::kF32, dims);
  const std::span<float> values = features.mutable_data<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 37 + static_cast<size_t>(seed) * 53) % 101) / 50.0f - 1.0f;
  return features;
}

}  // namespace kvik::laws

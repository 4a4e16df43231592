#include "audio/features.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "base/json.h"
#include "kvik/error.h"

namespace kvik::audio {
namespace {

namespace fs = std::filesystem;

constexpr int kDefaultSeconds = 30;

// The feature extractor's config file; messages name it.
class Description {
 public:
  explicit Description(const fs::path& folder) {
    std::error_code unreadable;
    path_ = folder / "preprocessor_config.json";
    if (fs::exists(path_, unreadable)) {
      root_ = read_json_file(path_);
    } else if (path_ = folder / "processor_config.json"; fs::exists(path_, unreadable)) {
      root_ = read_json_file(path_);
      if (root_.is_object()) root_ = root_.value("feature_extractor", Json::object());
    }
    if (!root_.is_object()) refuse("expected a JSON object");
  }

  bool has(const char* key) const { return root_.contains(key) && !root_[key].is_null(); }

  int number(const char* key, int fallback, int most) const {
    if (!has(key)) return fallback;
    const Json& value = root_[key];
    if (!value.is_number() || value.get<double>() < 1 || value.get<double>() > most)
      refuse(fmt::format("'{}' is {}; expected a number from 1 to {}", key, value.dump().substr(0, 40), most));
    return static_cast<int>(value.get<double>());
  }
  double real(const char* key, double fallback) const { return has(key) && root_[key].is_number() ? root_[key].get<double>() : fallback; }
  bool flag(const char* key) const { return has(key) && root_[key].is_boolean() && root_[key].get<bool>(); }

  [[noreturn]] void refuse(const std::string& what) const { throw Error(Code::kBadModel, fmt::format("{}: {}", path_.string(), what)); }
  std::string path() const { return path_.string(); }
  bool empty() const { return root_.empty(); }

 private:
  fs::path path_;
  Json root_ = Json::object();
};

// Configs of other kinds of features have none of these keys.
void require_log_mel(const Description& config) {
  if (config.empty() || config.has("n_fft") || config.has("hop_length") || config.has("chunk_length")) return;
  throw Error(Code::kUnsupported, fmt::format("{}: n_fft, hop_length and chunk_length are missing, so these are not log-mel features; "
                                              "compute the features separately and pass them with --features",
                                              config.path()));
}

void check_against_shape(const FeatureOptions& options, const Description& config, const Dims& shape) {
  const int n_frames = options.mel.n_frames(options.window_samples);
  if (shape.size() == 2 && shape[0] > 0 && shape[0] != options.mel.n_mels)
    config.refuse(fmt::format("feature_size is {}; the encoder reads {} features", options.mel.n_mels, shape[0]));
  if (shape.size() == 2 && shape[1] > 0 && shape[1] != n_frames)
    config.refuse(fmt::format("a window has {} frames ({} samples, one frame every {}); the encoder reads {}", n_frames,
                              options.window_samples, options.mel.hop_length, shape[1]));
  if (options.window_samples <= options.mel.n_fft / 2)
    config.refuse(fmt::format("a window has {} samples, fewer than half a frame of {}", options.window_samples, options.mel.n_fft));
}

// To mean 0 and variance 1.
void normalize(std::span<float> samples) {
  double sum = 0, squares = 0;
  for (const float value : samples) sum += value;
  const double mean = sum / static_cast<double>(samples.size());
  for (const float value : samples) squares += (value - mean) * (value - mean);
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(samples.size()) + 1e-7);
  for (float& value : samples) value = static_cast<float>((value - mean) * scale);
}

}  // namespace

FeatureOptions read_feature_options(const fs::path& folder, const Dims& shape) {
  if (shape.empty() || shape.size() > 2)
    throw Error(Code::kUnsupported,
                fmt::format("{}: the encoder's features have {} axes; expected one (samples) or two (mels and frames); compute the "
                            "features separately and pass them with --features",
                            folder.string(), shape.size()));
  constexpr int kMost = 1 << 20;
  const Description config(folder);
  if (shape.size() == 2 && shape[0] <= 0 && shape[1] > 0)
    throw Error(Code::kUnsupported,
                fmt::format("{}: the encoder reads frames of {} features, which are not log-mel features; compute them separately and "
                            "pass them as FILE.npy",
                            folder.string(), shape[1]));
  FeatureOptions options;
  options.waveform = shape.size() == 1;
  options.mel.rate = config.number("sampling_rate", 16000, kMost);
  options.padding_value = config.real("padding_value", 0.0);
  options.normalize = config.flag("do_normalize");
  if (options.waveform) {
    const int64_t seconds = config.number("chunk_length", kDefaultSeconds, 3600);
    options.window_samples = static_cast<int>(shape[0] > 0 ? std::min<int64_t>(shape[0], INT32_MAX) : seconds * options.mel.rate);
    options.pads_window = shape[0] > 0;
    return options;
  }
  require_log_mel(config);
  options.mel.n_mels = config.number("feature_size", shape[0] > 0 && shape[0] < kMost ? static_cast<int>(shape[0]) : 80, 1024);
  options.mel.n_fft = config.number("n_fft", options.mel.rate / 40, 1 << 16);
  options.mel.hop_length = config.number("hop_length", std::max(1, options.mel.rate / 100), kMost);
  const bool by_shape = !config.has("chunk_length") && shape[1] > 0 && shape[1] < kMost;
  const int64_t n_samples =
      by_shape ? shape[1] * options.mel.hop_length : int64_t{config.number("chunk_length", kDefaultSeconds, 3600)} * options.mel.rate;
  if (n_samples > INT32_MAX) config.refuse(fmt::format("a window has {} samples, which is too many", n_samples));
  options.window_samples = static_cast<int>(n_samples);
  check_against_shape(options, config, shape);
  return options;
}

FeatureExtractor::FeatureExtractor(const FeatureOptions& options) : options_(options) {
  if (!options.waveform) mel_.emplace(options.mel);
}

Tensor FeatureExtractor::extract(std::span<const float> samples) const {
  samples = samples.first(std::min(samples.size(), window_samples()));
  std::vector<float> window(samples.begin(), samples.end());
  if (options_.normalize && !window.empty()) normalize(window);
  if (options_.pads_window) window.resize(window_samples(), static_cast<float>(options_.padding_value));
  if (options_.waveform) return Tensor::of({static_cast<int64_t>(window.size())}, window);
  Tensor features(DType::kF32, {options_.mel.n_mels, mel_->n_frames(window.size())});
  mel_->compute(window, features.mutable_data<float>());
  return features;
}

}  // namespace kvik::audio

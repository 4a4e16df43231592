#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "api/call.h"
#include "api/target_setup.h"
#include "audio/features.h"
#include "audio/wav.h"
#include "engine/speech/speech.h"
#include "kvik/kvik.h"

namespace kvik::api {

// Samples as sound. `owner` keeps them alive; null: the caller does.
std::shared_ptr<const audio::Sound> sound_of(std::span<const float> samples, int rate, std::shared_ptr<const void> owner = nullptr);

// One call of Model::transcribe(): set the recording, then run it.
class Transcriber final : public Call<Transcription> {
 public:
  // Throws Error(kBadArgument) if the model does not transcribe or options are out of range.
  Transcriber(std::shared_ptr<const Model::State> state, TranscribeOptions options);

  // One of them, once. Throw Error for a request that the model cannot meet (language, task, timestamps).
  void set_file(const std::filesystem::path& wave_file);
  void set_sound(const std::shared_ptr<const audio::Sound>& sound);
  void set_windows(std::vector<Tensor> windows);  // features that were computed elsewhere, one tensor per window

  Transcription run();  // on the calling thread

  engine::Work& work() override { return *work_; }
  std::function<bool()> cancelled() const override { return options_.decoding.cancelled; }
  Transcription result(bool cancelled) override;

 private:
  TargetRequest target_request() const;
  const audio::FeatureExtractor& extractor();
  void begin();
  Segment describe_window(const engine::TranscribedWindow& window) const;

  std::shared_ptr<const Model::State> state_;
  TranscribeOptions options_;
  const analysis::Port& port_;
  TargetSetup setup_;
  engine::GenerationConfig config_;
  std::optional<audio::FeatureExtractor> extractor_;
  std::shared_ptr<const audio::Sound> sound_;  // at the rate that the model reads
  std::vector<Tensor> features_;
  std::unique_ptr<engine::AudioWindows> windows_;  // of one of them
  std::optional<engine::SpeechWork> work_;
  std::vector<Segment> segments_;
};

}  // namespace kvik::api

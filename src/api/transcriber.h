#pragma once

#include <memory>
#include <optional>

#include "api/target_setup.h"
#include "audio/features.h"
#include "audio/wav.h"
#include "engine/speech.h"
#include "kvik/kvik.h"

namespace kvik::api {

// One call of Model::transcribe(). Used by one thread.
class Transcriber {
 public:
  // Throws Error(kBadArgument) if the model does not transcribe or options are out of range.
  Transcriber(std::shared_ptr<const Model::State> state, TranscribeOptions options);

  Transcription run(const std::shared_ptr<const audio::Sound>& sound);
  // From features that were computed elsewhere, one tensor per window.
  Transcription run(std::span<const Tensor> windows);
  // Samples per second that the model reads; audio of another rate is resampled.
  int sample_rate() { return extractor().rate(); }

 private:
  TargetRequest target_request() const;
  const audio::FeatureExtractor& extractor();
  Transcription run(const engine::AudioWindows& windows);
  Segment describe_window(const engine::TranscribedWindow& window) const;

  std::shared_ptr<const Model::State> state_;
  TranscribeOptions options_;
  const analysis::Port& port_;
  TargetSetup setup_;
  engine::GenerationConfig config_;
  std::optional<audio::FeatureExtractor> extractor_;
};

}  // namespace kvik::api

#pragma once

#include <memory>
#include <optional>

#include "api/target.h"
#include "audio/features.h"
#include "audio/wav.h"
#include "engine/speech.h"
#include "kvik/kvik.h"

namespace kvik::api {

// Listens to a sound. Used by one thread at a time.
class Transcriber {
 public:
  // Throws Error(kBadArgument) where the model does not listen or the options cannot be.
  Transcriber(const Model& model, TranscribeOptions options);

  // Samples a second that the model hears; a sound of another rate is resampled.
  int rate();
  size_t feature_rank() const { return port_.dims.size(); }  // axes of what the encoder reads, batch included

  Transcription hear(const std::shared_ptr<const audio::Sound>& sound);
  // From features that were made elsewhere, one tensor a window.
  Transcription hear(std::span<const Tensor> windows);

 private:
  const audio::FeatureExtractor& extractor();
  engine::TranscribeOptions listening(Transcription& heard) const;
  Transcription finished(Transcription heard, const std::vector<TokenId>* start) const;
  HeardWindow described(const engine::HeardWindow& window) const;

  const Model model_;
  const TranscribeOptions options_;
  const ModelAccess::State& state_;
  const analysis::Port& port_;
  const Target target_;
  const sample::Sampler sampler_;
  engine::GenerationConfig config_;
  std::optional<audio::FeatureExtractor> extractor_;
};

}  // namespace kvik::api

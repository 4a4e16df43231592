#pragma once

#include <string>
#include <vector>

#include "api/target.h"
#include "kvik/kvik.h"
#include "tensor/tensor.h"

namespace kvik::api {

// What is translated: token ids, or features where the encoder reads no text. Neither: a blank text.
struct TranslationSource {
  std::vector<TokenId> tokens;
  Tensor features;

  bool is_blank() const { return tokens.empty() && !features.defined(); }
  size_t length() const { return features.defined() ? static_cast<size_t>(features.size()) : tokens.size(); }
};

// Translates sources that come in portions. They are counted from one portion to the next: what a source draws, and what it is called in
// sentences, depends on its place among all of them and not on the portion. Used by one thread at a time.
class Translator {
 public:
  // Throws Error(kBadArgument) where the model does not translate or the options cannot be.
  Translator(const Model& model, TranslateOptions options);

  // Sources for the next translate(), made one after another. Throw Error where they are too long, empty (ids) or not what the encoder
  // reads.
  TranslationSource read_text(std::string_view text);
  TranslationSource read_ids(std::vector<TokenId> ids);
  TranslationSource read_features(Tensor features);
  size_t feature_rank() const;  // axes of what the encoder reads, batch included; throws where that is text

  // In the order of the sources; TranslateOptions::translated and progress count those of this portion.
  std::vector<Translation> translate(std::vector<TranslationSource> sources);

  // Sources of like length share a batch among so many of them: enough to pad little, few enough that a long input is answered on its way.
  size_t n_sorted_together() const;

 private:
  const analysis::Port* feature_port() const;
  void check_reads_text() const;
  void fit(std::vector<TokenId>& source) const;
  bool translate_batch(std::span<const size_t> members);
  void report();

  const Model model_;
  const TranslateOptions options_;
  const ModelAccess::State& state_;
  const Target target_;
  const sample::Sampler sampler_;
  size_t n_read_ = 0;        // in all portions
  size_t n_translated_ = 0;  // before this portion
  size_t n_reported_ = 0;    // of this portion
  std::vector<TranslationSource> sources_;
  std::vector<Translation> results_;
  std::vector<bool> done_;
};

}  // namespace kvik::api

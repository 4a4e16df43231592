#pragma once

#include <string>
#include <vector>

#include "api/call.h"
#include "api/target_setup.h"
#include "kvik/kvik.h"
#include "tensor/tensor.h"

namespace kvik::api {

// Of an encoder that does not read text; null if it reads token ids or there is no encoder.
const analysis::Port* feature_port(const Model::State& state);
Tensor to_tensor(const Features& features);
std::vector<Tensor> to_tensors(std::span<const Features> all);

// One call of Model::translate(): add the sources, then run it.
class Translator final : public Call<std::vector<Translation>>, private engine::Work {
 public:
  // Throws Error(kBadArgument) if the model does not translate or options are out of range.
  Translator(std::shared_ptr<const Model::State> state, TranslateOptions options);

  // Throw Error for a source that is too long, empty (ids), outside the vocabulary or not what the encoder reads.
  void add_text(std::string_view text);
  void add_ids(std::vector<TokenId> ids);
  void add_features(Tensor features);

  std::vector<Translation> run();  // on the calling thread; in the order of the sources

  engine::Work& work() override;  // after the last source was added
  std::function<bool()> cancelled() const override { return options_.cancelled; }
  std::vector<Translation> result(bool cancelled) override;

 private:
  // Token ids, or features. Neither: a blank text.
  struct Source {
    std::vector<TokenId> tokens;
    Tensor features;
    bool is_blank() const { return tokens.empty() && !features.defined(); }
    size_t length() const { return features.defined() ? static_cast<size_t>(features.size()) : tokens.size(); }
  };

  void check_reads_text() const;
  void add(std::vector<TokenId> ids);
  size_t index_of_next() const { return options_.first_index + sources_.size(); }

  engine::NextPart next() const override;
  size_t next_rows() const override;
  engine::Part begin() override;
  engine::Stream stream_of(const engine::Part& part) override;
  void finished(const engine::Part& part) override;
  void report();

  std::shared_ptr<const Model::State> state_;
  TranslateOptions options_;
  TargetSetup setup_;
  std::vector<Source> sources_;
  std::vector<size_t> order_;  // of sources that are not blank: those that run together have similar lengths
  size_t n_begun_ = 0, n_running_ = 0, n_done_ = 0;
  size_t most_begun_ = 0;  // and not finished
  std::vector<Translation> results_;
  std::vector<bool> done_;
  size_t n_reported_ = 0;
};

}  // namespace kvik::api

#include "text/pipeline.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/utf8.h"
#include "kvik/error.h"

namespace kvik::text {
namespace {

class ModelSink final : public PieceSink {
 public:
  ModelSink(const Model& model, Scratch& scratch, std::vector<TokenId>& out) : model_(model), scratch_(scratch), out_(out) {}
  void take(const Piece& piece) override { model_.encode(piece.text, scratch_, out_); }

 private:
  const Model& model_;
  Scratch& scratch_;
  std::vector<TokenId>& out_;
};

// Follows a step and limits what it passes on.
class LimitedStep final : public DecodeStep {
 public:
  LimitedStep(GrowthLimit& growth, size_t step, DecodeStep& next) : growth_(growth), step_(step), next_(next) {}
  void push(std::string_view text) override {
    growth_.add(step_, text.size());
    next_.push(text);
  }
  void finish() override { next_.finish(); }
  size_t room() const override { return growth_.room(step_); }

 private:
  GrowthLimit& growth_;
  size_t step_;
  DecodeStep& next_;
};

struct RunRules {
  bool skip_special;
  bool bytes;  // also of characters that are not complete
};

class PipelineRun final : public DecodeRun {
 public:
  PipelineRun(const Pipeline& pipeline, const Decoders& decoders, RunRules rules, std::string& out)
      : pipeline_(pipeline), skip_special_(rules.skip_special), sink_(out) {
    // Steps are created from the last to the first; whether one sees a joined text is known from the first to the last.
    std::vector<bool> joined;
    bool joins = false;
    for (const auto& decoder : decoders) {
      joined.push_back(joins);
      joins = joins || decoder->joins();
    }
    DecodeStep* next = &sink_;
    growth_.start(0, decoders.size());
    for (size_t i = decoders.size(); i-- > 0;) {
      steps_.push_back(std::make_unique<LimitedStep>(growth_, i, *next));
      next = steps_.back().get();
      steps_.push_back(joined[i]     ? decoders[i]->start_joined(*next)
                       : rules.bytes ? decoders[i]->start_bytes(*next)
                                     : decoders[i]->start(*next));
      next = steps_.back().get();
    }
    first_ = next;
  }

  void push(TokenId id) override {
    if (skip_special_ && pipeline_.is_special(id)) return;
    const std::string_view piece = pipeline_.piece(id);
    growth_.add_input(piece.size());
    if (!piece.empty()) first_->push(piece);
  }
  void finish() override { first_->finish(); }

 private:
  const Pipeline& pipeline_;
  bool skip_special_;
  GrowthLimit growth_;
  TextSink sink_;
  std::vector<std::unique_ptr<DecodeStep>> steps_;
  DecodeStep* first_;
};

}  // namespace

Pipeline::Pipeline(Parts parts) : parts_(std::move(parts)) {
  if (parts_.ends_in_bytes && parts_.model->accept_raw_bytes()) parts_.pre_tokenizers.pop_back();
  if (parts_.decoders.empty()) parts_.decoders.push_back(make_spaces_decoder());
  const ScratchPool::Lease scratch = scratch_.borrow();
  size_t n_added_bytes = 0;
  for (const auto& [id, token] : parts_.added.all()) n_added_bytes += token.content.size();
  start_limit(n_added_bytes, *scratch);
  parts_.added.prepare([&](std::string_view content) {
    Stretch stretch = {.text = std::string(content)};
    normalize(stretch, *scratch);
    return stretch.text;
  });
  for (const auto& [id, token] : parts_.added.all()) {
    if (!parts_.added.is_special(token.content)) continue;
    special_ids_.insert(id);
    const TokenId in_model = parts_.model->vocabulary().find(token.content);
    if (in_model != kNoToken && parts_.added.token(in_model) == nullptr) special_ids_.insert(in_model);
  }
  source_language_ = find_language(*this, parts_.source_language);
}

void Pipeline::start_limit(size_t n_input_bytes, Scratch& scratch) const {
  scratch.growth.start(n_input_bytes, parts_.normalizers.size() + parts_.pre_tokenizers.size());
}

void Pipeline::normalize(Stretch& stretch, Scratch& scratch) const {
  for (size_t i = 0; i < parts_.normalizers.size(); ++i) {
    stretch.max_bytes = scratch.growth.room(i);
    parts_.normalizers[i]->apply(stretch, scratch);
    scratch.growth.add(i, stretch.text.size());
  }
}

void Pipeline::encode(std::string_view text, const EncodeOptions& options, std::vector<TokenId>& out) const {
  const ScratchPool::Lease scratch = scratch_.borrow();
  start_limit(text.size(), *scratch);
  parts_.added.find_raw(text, [&](TokenId id, size_t begin, size_t end) {
    if (id != kNoToken) {
      out.push_back(id);
    } else {
      encode_stretch(text.substr(begin, end - begin), begin == 0, *scratch, out);
    }
  });
  if (!parts_.post_processors.empty() || !options.language.empty()) add_special(out, options);
}

void Pipeline::encode_stretch(std::string_view text, bool first, Scratch& scratch, std::vector<TokenId>& out) const {
  const size_t n_at_start = first && parts_.needs_start ? utf8::size_of(text[0]) : 0;
  if (parts_.normalizers.empty()) {
    encode_normalized({text, n_at_start}, scratch, out);
    return;
  }
  Stretch stretch = {.text = std::move(scratch.normalized), .n_at_start = n_at_start};
  stretch.text.assign(text);
  normalize(stretch, scratch);
  encode_normalized({stretch.text, stretch.n_at_start}, scratch, out);
  scratch.normalized = std::move(stretch.text);
}

void Pipeline::encode_normalized(const Piece& text, Scratch& scratch, std::vector<TokenId>& out) const {
  ModelSink sink(*parts_.model, scratch, out);
  parts_.added.find_normalized(text.text, [&](TokenId id, size_t begin, size_t end) {
    if (id != kNoToken) {
      out.push_back(id);
    } else {
      run_steps(parts_.pre_tokenizers, text.part(begin, end), scratch, parts_.normalizers.size(), sink);
    }
  });
}

// Another language replaces the default one that the post-processor inserted, or goes first if there is none.
void Pipeline::add_special(std::vector<TokenId>& ids, const EncodeOptions& options) const {
  PostProcessor::Parts parts(1);
  parts[0] = std::move(ids);
  for (const auto& processor : parts_.post_processors) processor->apply(parts, options.add_special);
  ids = std::move(parts[0]);
  for (size_t i = 1; i < parts.size(); ++i) ids.insert(ids.end(), parts[i].begin(), parts[i].end());
  if (options.language.empty() || !options.add_special) return;
  const TokenId language = find_language(*this, options.language);
  if (language == kNoToken) {
    throw Error(Code::kBadArgument, fmt::format("the tokenizer has no token for language '{}'", options.language));
  }
  const auto is_default = [&](TokenId id) { return source_language_ != kNoToken && id == source_language_; };
  if (!ids.empty() && is_default(ids.front())) {
    ids.front() = language;
  } else if (!ids.empty() && is_default(ids.back())) {
    ids.back() = language;
  } else {
    ids.insert(ids.begin(), language);
  }
}

std::unique_ptr<DecodeRun> Pipeline::start_decoding(bool skip_special, std::string& out) const {
  return std::make_unique<PipelineRun>(*this, parts_.decoders, RunRules{skip_special, false}, out);
}

std::unique_ptr<DecodeRun> Pipeline::start_decoding_bytes(std::string& out) const {
  return std::make_unique<PipelineRun>(*this, parts_.decoders, RunRules{true, true}, out);
}

TokenId Pipeline::find(std::string_view piece) const { return parts_.added.find(piece); }

std::string_view Pipeline::piece(TokenId id) const {
  const AddedToken* added = parts_.added.token(id);
  return added != nullptr ? std::string_view(added->content) : parts_.model->vocabulary().piece(id);
}

TokenId Pipeline::end_id() const { return std::max(parts_.added.end_id(), parts_.model->vocabulary().end_id()); }

}  // namespace kvik::text

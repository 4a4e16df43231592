#include <algorithm>
#include <span>

#include "server/chat/logprobs.h"
#include "server/openai/answer.h"

namespace kvik::server::openai {
namespace {

void add_prompt(CompletionLogprobs& to, const LoadedModel& model, const CompletionAnswer::Echo* echo) {
  if (echo == nullptr || echo->logprobs.empty()) return;
  to.add_without_logprob(model, echo->logprobs.front().id);
  to.add(model, {echo->logprobs.begin() + 1, echo->logprobs.end()});
}

Json choice_json(size_t index, const std::string& text, const Json& logprobs, const Json& finish) {
  return {{"index", index}, {"text", text}, {"logprobs", logprobs}, {"finish_reason", finish}};
}

class CompletionStreamWriter final : public AnswerWriter {
 public:
  explicit CompletionStreamWriter(CompletionAnswer answer)
      : answer_(std::move(answer)),
        stream_(answer_.exchange, Envelope(*answer_.model, "cmpl-"), "text_completion", answer_.request.include_usage),
        logprobs_(answer_.n_choices()) {}

  void update(size_t choice, StreamUpdate update) override {
    begin();
    Json logprobs;
    if (answer_.request.shows_logprobs) {
      logprobs_[choice].add(*answer_.model, update.tokens);
      if (!logprobs_[choice].empty()) logprobs = logprobs_[choice].take();
    }
    if (update.text.empty() && logprobs.is_null() && !update.finish) return;
    const Json finish = update.finish ? Json(finish_reason(*update.finish)) : Json();
    stream_.write(stream_.event(choice_json(choice, update.text, logprobs, finish)));
  }

  void done(const GenerationSummary& summary) override {
    begin();
    stream_.end(summary);
  }

  void failed(const ApiError& error) override { stream_.fail(error); }

 private:
  void begin() {
    if (!stream_.begin()) return;
    for (size_t i = 0; !answer_.echo.empty() && i < logprobs_.size(); ++i) {
      add_prompt(logprobs_[i], *answer_.model, answer_.echo_of(i));
      const Json logprobs = logprobs_[i].empty() ? Json() : logprobs_[i].take();
      stream_.write(stream_.event(choice_json(i, answer_.echo_of(i)->text, logprobs, nullptr)));
    }
  }

  CompletionAnswer answer_;
  EventStream stream_;
  std::vector<CompletionLogprobs> logprobs_;
};

class CompletionWholeWriter final : public AnswerWriter {
 public:
  explicit CompletionWholeWriter(CompletionAnswer answer) : answer_(std::move(answer)), choices_(answer_.n_choices()) {}

  bool is_whole() const override { return true; }

  void update(size_t choice, StreamUpdate update) override {
    Choice& to = choices_[choice];
    to.text += update.text;
    for (const GeneratedToken& token : update.tokens) to.sum += token.logprob;
    to.n_tokens += update.tokens.size();
    if (answer_.request.shows_logprobs) to.tokens.insert(to.tokens.end(), update.tokens.begin(), update.tokens.end());
    if (update.finish) to.finish = *update.finish;
  }

  void done(const GenerationSummary& summary) override {
    Json json = Envelope(*answer_.model, "cmpl-").json("text_completion");
    json["choices"] = Json::array();
    const auto n_generated = static_cast<size_t>(answer_.request.best_of);
    for (size_t first = 0; first < choices_.size(); first += n_generated) {
      const std::span<Choice> group(choices_.data() + first, n_generated);
      if (answer_.request.best_of > answer_.request.n) std::ranges::stable_sort(group, std::greater<>(), &Choice::mean);
      for (const Choice& choice : group.first(static_cast<size_t>(answer_.request.n)))
        json["choices"].push_back(written(json["choices"].size(), choice, answer_.echo_of(first)));
    }
    json["usage"] = usage_json(summary);
    answer_.exchange->send(json);
  }

  void failed(const ApiError& error) override { answer_.exchange->fail(error); }

 private:
  struct Choice {
    std::string text;
    std::vector<GeneratedToken> tokens;
    double sum = 0;  // of log-probabilities, for best_of
    size_t n_tokens = 0;
    Finish finish = Finish::kStop;

    double mean() const { return sum / std::max<double>(1, static_cast<double>(n_tokens)); }
  };

  Json written(size_t index, const Choice& choice, const CompletionAnswer::Echo* echo) const {
    const std::string text = (echo != nullptr ? echo->text : "") + choice.text;
    CompletionLogprobs logprobs;
    if (!answer_.request.shows_logprobs) return choice_json(index, text, nullptr, finish_reason(choice.finish));
    add_prompt(logprobs, *answer_.model, echo);
    logprobs.add(*answer_.model, choice.tokens);
    return choice_json(index, text, logprobs.take(), finish_reason(choice.finish));
  }

  CompletionAnswer answer_;
  std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<AnswerWriter> new_completion_writer(CompletionAnswer answer) {
  if (answer.request.stream) return std::make_unique<CompletionStreamWriter>(std::move(answer));
  return std::make_unique<CompletionWholeWriter>(std::move(answer));
}

}  // namespace kvik::server::openai

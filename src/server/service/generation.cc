#include "server/service/generation.h"

#include <algorithm>

namespace kvik::server {
namespace {

using Clock = std::chrono::steady_clock;

// The streams of one request. After start() it is used on the thread of the server.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(Service& service, std::shared_ptr<Exchange> exchange, Registry::Handle model, std::unique_ptr<AnswerWriter> writer)
      : service_(service), exchange_(std::move(exchange)), model_(std::move(model)), writer_(std::move(writer)) {}

  void start(const GenerationRequest& request) {
    load_ms_ = ms_since(exchange_->start);
    RequestOptions how{.user = exchange_->user, .timeout = service_.options.timeout};
    how.on_update = [self = shared_from_this()] { self->wake(); };
    for (const std::vector<TokenId>& prompt : request.prompts) {
      try {
        submit(prompt, request.choices, how);
      } catch (const Error& e) {
        if (e.code() != Code::kTooLarge) throw;
        throw ApiError(400, "context_length_exceeded", e.what(), request.prompt_field);
      }
    }
    if (!exchange_->post([self = shared_from_this()] { self->begin(); })) choices_.clear();
  }

 private:
  struct Choice {
    Stream stream;
    bool ended = false;
    Clock::time_point last_token{};
  };

  Labels labels() const { return {{"model", model_->facts.name}}; }

  void submit(const std::vector<TokenId>& prompt, const std::vector<GenerateOptions>& choices, RequestOptions how) {
    const size_t first = choices_.size();
    for (const GenerateOptions& options : choices) {
      how.same_prompt = choices_.size() == first ? nullptr : &choices_[first].stream;
      std::optional<Stream> stream = model_->engine->try_submit(prompt, options, how);
      if (!stream) {
        service_.metrics.add("kvik_rejections_total", labels());
        choices_.clear();  // cancels those that were submitted
        throw ApiError(429, "rate_limit_exceeded", "the queue of the model is full; try again");
      }
      choices_.push_back({std::move(*stream)});
    }
    n_prompt_ += static_cast<int>(prompt.size());
  }

  void begin() {
    has_begun_ = true;
    exchange_->on_disconnect([weak = weak_from_this()] {
      if (const std::shared_ptr<Generation> self = weak.lock()) self->cancel();
    });
    pump();
  }

  // On the thread of the engine.
  void wake() {
    if (!is_posted_.exchange(true)) exchange_->post([self = shared_from_this()] { self->pump(); });
  }

  void cancel() {
    if (writer_ == nullptr) return;
    service_.metrics.add("kvik_cancelled_total", labels());
    for (Choice& choice : choices_) choice.stream.cancel();
    writer_ = nullptr;
    finish();
  }

  void pump() {
    is_posted_ = false;
    if (writer_ == nullptr || !has_begun_) return;
    bool all_ended = true;
    for (size_t i = 0; i < choices_.size() && writer_ != nullptr; ++i) {
      Choice& choice = choices_[i];
      if (choice.ended) continue;
      StreamUpdate update = choice.stream.poll();
      measure(choice, update);
      choice.ended = update.finish.has_value();
      all_ended &= choice.ended;
      if (update.error != nullptr) return fail(update.error);
      if (update.timed_out) return fail(std::make_exception_ptr(ApiError(504, "timeout", "the request timed out")));
      if (update.finish == Finish::kCancelled) return fail(std::make_exception_ptr(ApiError(503, "", "the server stops")));
      if (!update.text.empty() || !update.tokens.empty() || update.finish) writer_->update(i, std::move(update));
    }
    if (!all_ended || writer_ == nullptr) return;
    const std::shared_ptr<AnswerWriter> writer = std::move(writer_);
    finish();
    const auto write = [exchange = exchange_, writer, summary = summary_] { answer_errors(*exchange, [&] { writer->done(summary); }); };
    if (!writer->is_whole() || !service_.prepare.try_post(write)) write();
  }

  void fail(const std::exception_ptr& error) {
    const std::unique_ptr<AnswerWriter> writer = std::move(writer_);
    for (Choice& choice : choices_) choice.stream.cancel();
    finish();
    try {
      std::rethrow_exception(error);
    } catch (...) { writer->failed(current_api_error()); }
  }

  void measure(Choice& choice, const StreamUpdate& update) {
    if (update.tokens.empty()) return;
    const Clock::time_point now = Clock::now();
    if (choice.last_token != Clock::time_point{}) {
      const double seconds = std::chrono::duration<double>(now - choice.last_token).count() / static_cast<double>(update.tokens.size());
      for (size_t i = 0; i < update.tokens.size(); ++i) service_.metrics.observe("kvik_token_seconds", labels(), seconds);
    }
    choice.last_token = now;
  }

  // Counts what was done, and lets go of the model.
  void finish() {
    GenerationSummary& sum = summary_;
    sum.total_ms = ms_since(exchange_->start);
    sum.load_ms = load_ms_;
    sum.prompt_tokens = n_prompt_;
    int n_computed = 0;
    for (const Choice& choice : choices_) {
      const Metrics metrics = choice.stream.metrics();
      const int n_new = static_cast<int>(choice.stream.ids().size());
      sum.completion_tokens += n_new;
      sum.prompt_ms = std::max(sum.prompt_ms, metrics.prefill_ms);
      sum.decode_ms = std::max(sum.decode_ms, metrics.decode_ms);
      n_computed += metrics.prompt_tokens;
      if (metrics.reused_tokens > 0) service_.metrics.add("kvik_prefix_hits_total", labels());
      service_.metrics.add("kvik_reused_tokens_total", labels(), metrics.reused_tokens);
      if (metrics.mask_ms > 0 && n_new > 0) service_.metrics.observe("kvik_mask_seconds", labels(), metrics.mask_ms / 1e3 / n_new);
      if (n_new > 0 && metrics.first_token_ms > 0)
        service_.metrics.observe("kvik_first_token_seconds", labels(), metrics.first_token_ms / 1e3);
    }
    if (!choices_.empty()) {
      const Metrics first = choices_.front().stream.metrics();
      sum.reused_tokens = first.reused_tokens;
      exchange_->counts = {n_prompt_ - first.reused_tokens, first.reused_tokens, sum.completion_tokens, first.first_token_ms};
      if (const std::optional<Finish> how = choices_.front().stream.finish()) exchange_->finish = finish_name(*how);
    }
    service_.metrics.add("kvik_prompt_tokens_total", labels(), n_computed);
    service_.metrics.add("kvik_generated_tokens_total", labels(), sum.completion_tokens);
    choices_.clear();
    model_ = nullptr;
  }

  Service& service_;
  std::shared_ptr<Exchange> exchange_;
  Registry::Handle model_;
  std::unique_ptr<AnswerWriter> writer_;  // null: it has ended
  std::vector<Choice> choices_;
  std::atomic<bool> is_posted_{false};
  bool has_begun_ = false;  // all choices are submitted
  int n_prompt_ = 0;
  double load_ms_ = 0;
  GenerationSummary summary_;
};

}  // namespace

StreamUpdate whole_update(std::string text, Finish finish) {
  StreamUpdate update;
  update.text = std::move(text);
  update.finish = finish;
  return update;
}

void generate(Service& service, const std::shared_ptr<Exchange>& exchange, const Registry::Handle& model, GenerationRequest request,
              std::unique_ptr<AnswerWriter> writer) {
  std::make_shared<Generation>(service, exchange, model, std::move(writer))->start(request);
}

}  // namespace kvik::server

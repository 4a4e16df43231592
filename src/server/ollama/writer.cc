#include "server/chat/logprobs.h"
#include "server/ollama/answer.h"

namespace kvik::server::ollama {
namespace {

int64_t nanoseconds(double ms) { return static_cast<int64_t>(ms * 1e6); }

// One JSON line per part, or one object for all of it.
class Writer final : public AnswerWriter {
 public:
  explicit Writer(Answer answer) : answer_(std::move(answer)), context_(answer_.prompt) {}

  void update(size_t, StreamUpdate update) override {
    if (!answer_.prompt.empty()) {
      for (const GeneratedToken& token : update.tokens) context_.push_back(token.id);
    }
    if (update.finish) finish_ = *update.finish;
    if (answer_.request.options.logprobs) {
      const Json found = chat_logprobs(*answer_.model, update.tokens);
      for (const Json& token : found["content"]) logprobs_.push_back(token);
    }
    ToolReader::Found found = read(update.text, update.finish.has_value());
    text_ += answer_.request.stream ? "" : found.content;
    for (ToolCall& call : found.calls) calls_.push_back(call_json(call));
    if (!answer_.request.stream || (found.content.empty() && found.calls.empty())) return;
    begin();
    Json next = part(found.content, false, answer_.is_chat ? std::exchange(calls_, Json::array()) : Json());
    add_logprobs(next);
    answer_.exchange->write(dump(next) + "\n");
  }

  void done(const GenerationSummary& summary) override {
    Json last = part(text_, true, calls_);
    last["done_reason"] = finish_ == Finish::kLength ? "length" : "stop";
    if (!context_.empty()) last["context"] = context_;
    add_logprobs(last);
    last["total_duration"] = nanoseconds(summary.total_ms);
    last["load_duration"] = nanoseconds(summary.load_ms);
    last["prompt_eval_count"] = summary.prompt_tokens;
    last["prompt_eval_duration"] = nanoseconds(summary.prompt_ms);
    last["eval_count"] = summary.completion_tokens;
    last["eval_duration"] = nanoseconds(summary.decode_ms);
    if (!answer_.request.stream) return answer_.exchange->send(last);
    begin();
    answer_.exchange->write(dump(last) + "\n");
    answer_.exchange->end();
  }

  void failed(const ApiError& error) override {
    if (!has_begun_) return answer_.exchange->fail(error);
    answer_.exchange->write(error_body(Style::kOllama, error) + "\n");
    answer_.exchange->end();
  }

 private:
  void begin() {
    if (!std::exchange(has_begun_, true)) answer_.exchange->begin("application/x-ndjson");
  }

  ToolReader::Found read(std::string_view text, bool is_last) {
    if (answer_.tools == nullptr) return {std::string(text), {}};
    ToolReader::Found found = answer_.tools->push(text);
    if (!is_last) return found;
    ToolReader::Found rest = answer_.tools->flush();
    found.content += rest.content;
    found.calls.insert(found.calls.end(), rest.calls.begin(), rest.calls.end());
    return found;
  }

  void add_logprobs(Json& to) {
    if (!logprobs_.empty()) to["logprobs"] = std::exchange(logprobs_, Json::array());
  }

  static Json call_json(const ToolCall& call) {
    const Json arguments = Json::parse(call.arguments, nullptr, false);
    return {{"function", {{"name", call.name}, {"arguments", arguments.is_object() ? arguments : Json::object()}}}};
  }

  Json part(const std::string& text, bool is_done, const Json& calls) const {
    Json json = {{"model", answer_.request.model}, {"created_at", timestamp()}};
    if (answer_.is_chat) {
      json["message"] = {{"role", "assistant"}, {"content", text}};
      if (!calls.empty()) json["message"]["tool_calls"] = calls;
    } else {
      json["response"] = text;
    }
    json["done"] = is_done;
    return json;
  }

  Answer answer_;
  std::vector<TokenId> context_;
  std::string text_;               // of an answer that is not a stream
  Json calls_ = Json::array();     // that were not sent yet
  Json logprobs_ = Json::array();  // that were not sent yet
  Finish finish_ = Finish::kStop;
  bool has_begun_ = false;
};

}  // namespace

std::unique_ptr<AnswerWriter> new_writer(Answer answer) { return std::make_unique<Writer>(std::move(answer)); }

Json empty_answer(const std::string& model, bool is_chat, std::string_view done_reason) {
  Json json = {{"model", model}, {"created_at", timestamp()}};
  if (is_chat) {
    json["message"] = {{"role", "assistant"}, {"content", ""}};
  } else {
    json["response"] = "";
  }
  json["done"] = true;
  json["done_reason"] = done_reason;
  return json;
}

}  // namespace kvik::server::ollama

#include "server/chat/logprobs.h"
#include "server/openai/answer.h"

namespace kvik::server::openai {
namespace {

Json tool_call_json(const ToolCall& call) {
  return {{"id", random_id(9)}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

// Calls and content of the next text of a choice, and of its end.
ToolReader::Found read_tools(ToolReader* reader, std::string_view text, std::optional<Finish> finish) {
  if (reader == nullptr) return {std::string(text), {}};
  ToolReader::Found found = reader->push(text);
  if (!finish) return found;
  ToolReader::Found rest = reader->flush(*finish == Finish::kLength);
  found.content += rest.content;
  found.calls.insert(found.calls.end(), rest.calls.begin(), rest.calls.end());
  return found;
}

// A call that a limit cut off is there as far as it goes, and the reason says so.
std::string_view reason_of(Finish finish, bool has_calls) {
  return has_calls && finish != Finish::kLength ? "tool_calls" : finish_reason(finish);
}

class ChatStreamWriter final : public AnswerWriter {
 public:
  explicit ChatStreamWriter(ChatAnswer answer)
      : answer_(std::move(answer)),
        stream_(answer_.exchange, Envelope(*answer_.model, "chatcmpl-"), "chat.completion.chunk", answer_.request.include_usage),
        n_calls_(static_cast<size_t>(answer_.request.n)) {}

  void update(size_t choice, StreamUpdate update) override {
    begin();
    ToolReader* const reader = answer_.tools.empty() ? nullptr : answer_.tools[choice].get();
    const ToolReader::Found found = read_tools(reader, update.text, update.finish);
    const bool has_logprobs = answer_.request.options.logprobs && !update.tokens.empty();
    const Json logprobs = has_logprobs ? chat_logprobs(*answer_.model, update.tokens) : Json();
    std::string events;
    if (!found.content.empty() || has_logprobs) events += chunk(choice, {{"content", found.content}}, logprobs);
    for (const ToolCall& call : found.calls) {
      Json json = {{"index", n_calls_[choice]++}};
      json.update(tool_call_json(call));
      events += chunk(choice, {{"tool_calls", Json::array({std::move(json)})}});
    }
    if (update.finish) events += chunk(choice, Json::object(), nullptr, reason_of(*update.finish, n_calls_[choice] > 0));
    stream_.write(events);
  }

  void done(const GenerationSummary& summary) override {
    begin();
    stream_.end(summary);
  }

  void failed(const ApiError& error) override { stream_.fail(error); }

 private:
  void begin() {
    if (!stream_.begin()) return;
    std::string events;
    for (size_t i = 0; i < n_calls_.size(); ++i) events += chunk(i, {{"role", "assistant"}, {"content", ""}});
    stream_.write(events);
  }

  std::string chunk(size_t choice, const Json& delta, const Json& logprobs = nullptr, std::string_view finish = {}) const {
    return stream_.event(
        {{"index", choice}, {"delta", delta}, {"logprobs", logprobs}, {"finish_reason", finish.empty() ? Json() : Json(finish)}});
  }

  ChatAnswer answer_;
  EventStream stream_;
  std::vector<int> n_calls_;  // of tools, per choice
};

class ChatWholeWriter final : public AnswerWriter {
 public:
  explicit ChatWholeWriter(ChatAnswer answer) : answer_(std::move(answer)), choices_(static_cast<size_t>(answer_.request.n)) {}

  bool is_whole() const override { return true; }

  void update(size_t choice, StreamUpdate update) override {
    Choice& to = choices_[choice];
    to.text += update.text;
    to.tokens.insert(to.tokens.end(), update.tokens.begin(), update.tokens.end());
    if (update.finish) to.finish = *update.finish;
  }

  void done(const GenerationSummary& summary) override {
    Json json = Envelope(*answer_.model, "chatcmpl-").json("chat.completion");
    json["choices"] = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) json["choices"].push_back(choice_json(i));
    json["usage"] = usage_json(summary);
    answer_.exchange->send(json);
  }

  void failed(const ApiError& error) override { answer_.exchange->fail(error); }

 private:
  struct Choice {
    std::string text;
    std::vector<GeneratedToken> tokens;
    Finish finish = Finish::kStop;
  };

  Json choice_json(size_t i) const {
    const Choice& choice = choices_[i];
    const ToolReader::Found found = read_tools(answer_.tools.empty() ? nullptr : answer_.tools[i].get(), choice.text, choice.finish);
    Json message = {{"role", "assistant"}, {"content", found.content}, {"refusal", nullptr}};
    if (!found.calls.empty()) {
      if (found.content.empty()) message["content"] = nullptr;
      message["tool_calls"] = Json::array();
      for (const ToolCall& call : found.calls) message["tool_calls"].push_back(tool_call_json(call));
    }
    const bool has_logprobs = answer_.request.options.logprobs.has_value();
    return {{"index", i},
            {"message", std::move(message)},
            {"logprobs", has_logprobs ? chat_logprobs(*answer_.model, choice.tokens) : Json()},
            {"finish_reason", reason_of(choice.finish, !found.calls.empty())}};
  }

  ChatAnswer answer_;
  std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<AnswerWriter> new_chat_writer(ChatAnswer answer) {
  if (answer.request.stream) return std::make_unique<ChatStreamWriter>(std::move(answer));
  return std::make_unique<ChatWholeWriter>(std::move(answer));
}

}  // namespace kvik::server::openai

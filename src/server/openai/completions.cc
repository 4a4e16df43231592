#include <algorithm>
#include <fmt/format.h>

#include "server/chat/logprobs.h"
#include "server/chat/output_format.h"
#include "server/chat/prompt.h"
#include "server/chat/translate_text.h"
#include "server/openai/answer.h"
#include "server/openai/openai.h"
#include "server/service/task.h"

namespace kvik::server::openai {
namespace {

constexpr int kDefaultNewTokens = 16;  // as OpenAI has it
constexpr size_t kMostPrompts = 128;

struct Prompt {
  std::string text;
  std::vector<TokenId> ids;  // instead
};

struct CompletionRequest {
  TextRequest text;
  std::vector<Prompt> prompts;
  bool echo = false;
};

std::vector<Prompt> read_prompts(const Fields& body) {
  const Json* const prompt = body.find("prompt");
  if (prompt == nullptr) return {{}};  // from the start token
  std::vector<Prompt> prompts;
  const Json list = prompt->is_array() && !is_token_ids(*prompt) ? *prompt : Json::array({*prompt});
  for (const Json& each : list) {
    if (each.is_string()) {
      prompts.push_back({each.get<std::string>(), {}});
    } else if (is_token_ids(each)) {
      prompts.push_back({"", each.get<std::vector<TokenId>>()});
    } else {
      body.fail("prompt", "a text, a list of token ids, or a list of these");
    }
  }
  if (prompts.empty() || prompts.size() > kMostPrompts) body.fail("prompt", fmt::format("a list of 1 to {} prompts", kMostPrompts));
  return prompts;
}

// Log-probabilities of the prompt itself. The first token has none.
std::vector<GeneratedToken> scored(const std::vector<TokenId>& prompt, const Score& score) {
  std::vector<GeneratedToken> tokens(prompt.size());
  for (size_t i = 0; i < prompt.size(); ++i) {
    tokens[i].id = prompt[i];
    if (i == 0) continue;
    tokens[i].logprob = score.logprobs[i - 1];
    tokens[i].top = {tokens[i]};
  }
  return tokens;
}

struct Completion {
  GenerationRequest generation;
  CompletionAnswer how;
  size_t n_scored = 0;  // prompts
};

// Scores prompts that are shown with log-probabilities, one after another, then generates.
void score_and_generate(Service& service, const std::shared_ptr<Completion>& completion) {
  const std::shared_ptr<Exchange> exchange = completion->how.exchange;
  const Registry::Handle model = completion->how.model;
  const bool scores = completion->how.request.shows_logprobs && completion->n_scored < completion->how.echo.size();
  if (!scores)
    return generate(service, exchange, model, std::move(completion->generation), new_completion_writer(std::move(completion->how)));
  const size_t i = completion->n_scored++;
  const std::vector<TokenId>& ids = completion->generation.prompts[i];
  if (ids.size() < 2) {
    completion->how.echo[i].logprobs = scored(ids, {});
    return score_and_generate(service, completion);
  }
  const auto submit = [&](Engine& engine, const RequestOptions& how) {
    return engine.try_score(ids, {.window = static_cast<int>(ids.size())}, how);
  };
  run_task<Score>(service, exchange, model, submit, [&service, completion, i](const Score& score) {
    completion->how.echo[i].logprobs = scored(completion->generation.prompts[i], score);
    score_and_generate(service, completion);
  });
}

void answer(Service& service, const std::shared_ptr<Exchange>& exchange, const Registry::Handle& model, const CompletionRequest& request) {
  CompletionAnswer how{exchange, model, request.text, request.prompts.size(), {}};
  if (translates_text(*model)) {
    refuse_choices_of_translation(*model, request.text);
    if (request.echo) refuse_for_translation(*model, "echo");
    std::vector<std::string> texts;
    for (const Prompt& prompt : request.prompts) {
      if (!prompt.ids.empty()) throw ApiError(400, "", fmt::format("{} translates; a text was expected", model->facts.name), "prompt");
      texts.push_back(prompt.text);
    }
    return answer_with_translation(service, exchange, model, texts, request.text.options, new_completion_writer(std::move(how)));
  }
  if (!model->continues_prompts()) throw ApiError(400, "", fmt::format("{} does not generate text", model->facts.name), "model");
  GenerationRequest generation{.choices = request.text.choices()};
  const auto n_new = static_cast<size_t>(std::min(*request.text.options.max_tokens, room_behind(*model, 0, service.options)));
  size_t n_bytes = 0, n_tokens = 0;
  for (const Prompt& prompt : request.prompts) {
    n_bytes += prompt.text.size();
    if (n_bytes > service.options.max_prompt_bytes) throw ApiError(413, "", "the prompts are too long together", "prompt");
    generation.prompts.push_back(prompt.ids.empty() ? tokenize_prompt(*model, prompt.text, true, service.options.max_prompt_bytes)
                                                    : prompt.ids);
    n_tokens += n_new + (request.echo ? generation.prompts.back().size() : 0);
    if (!request.echo) continue;
    const std::vector<TokenId>& ids = generation.prompts.back();
    const bool has_text = !prompt.text.empty() || !model->model.has_tokenizer();
    how.echo.push_back({has_text ? prompt.text : model->model.detokenize(ids), {}});
  }
  if (request.text.shows_logprobs && !request.text.stream)
    check_logprobs(n_tokens * generation.choices.size(), *request.text.options.logprobs);
  score_and_generate(service, std::make_shared<Completion>(Completion{std::move(generation), std::move(how)}));
}

}  // namespace

void completions(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Json json = parse_body(exchange->request.body);
  const Fields body(json);
  CompletionRequest request;
  request.text = read_text_request(body, service.options);
  if (!request.text.options.max_tokens) request.text.options.max_tokens = kDefaultNewTokens;
  refuse(body, {"suffix"});
  request.prompts = read_prompts(body);
  request.text.options.constraint = read_response_format(body, service.options);
  request.echo = body.boolean("echo").value_or(false);
  if (const std::optional<std::string> user = body.text("user")) exchange->user = *user;
  const std::string name = request.text.model;
  service.with_model(exchange, name, [&service, exchange, request = std::move(request)](const Registry::Handle& model) {
    answer(service, exchange, model, request);
  });
}

}  // namespace kvik::server::openai

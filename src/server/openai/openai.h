#pragma once

#include <memory>

#include "server/service/service.h"

// OpenAI's API. Each function answers one request on a thread of Service::prepare. An exception becomes the answer.
namespace kvik::server::openai {

void chat_completions(Service& service, const std::shared_ptr<Exchange>& exchange);
void completions(Service& service, const std::shared_ptr<Exchange>& exchange);
void embeddings(Service& service, const std::shared_ptr<Exchange>& exchange);
void translations(Service& service, const std::shared_ptr<Exchange>& exchange);
void transcriptions(Service& service, const std::shared_ptr<Exchange>& exchange);
void models(Service& service, const std::shared_ptr<Exchange>& exchange);
void one_model(Service& service, const std::shared_ptr<Exchange>& exchange);

}  // namespace kvik::server::openai

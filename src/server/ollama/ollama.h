#pragma once

#include <memory>

#include "server/service/service.h"

// Ollama's API. Each function answers one request. An exception becomes the answer.
namespace kvik::server::ollama {

void generate(Service& service, const std::shared_ptr<Exchange>& exchange);
void chat(Service& service, const std::shared_ptr<Exchange>& exchange);
void embed_texts(Service& service, const std::shared_ptr<Exchange>& exchange);   // /api/embed
void embed_prompt(Service& service, const std::shared_ptr<Exchange>& exchange);  // /api/embeddings
void pull(Service& service, const std::shared_ptr<Exchange>& exchange);
void show(Service& service, const std::shared_ptr<Exchange>& exchange);
void tags(Service& service, const std::shared_ptr<Exchange>& exchange);
void ps(Service& service, const std::shared_ptr<Exchange>& exchange);
void version(Service& service, const std::shared_ptr<Exchange>& exchange);

}  // namespace kvik::server::ollama

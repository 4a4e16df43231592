#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/service/generation.h"

namespace kvik::server {

// Whether the model answers a text with its translation.
bool translates_text(const LoadedModel& model);

// The translation of one text as the only choice of an answer. On any thread; it runs on one that may compute.
void answer_with_translation(Service& service, const std::shared_ptr<Exchange>& exchange, const Registry::Handle& model, std::string text,
                             const GenerateOptions& options, std::unique_ptr<AnswerWriter> writer);

// Translates, cancelled if the client goes. Throws as Model::translate() does, and ApiError(504) after the time for a request.
std::vector<Translation> translate(Service& service, const std::shared_ptr<Exchange>& exchange, const LoadedModel& model,
                                   const std::vector<std::string>& texts, TranslateOptions options);

}  // namespace kvik::server

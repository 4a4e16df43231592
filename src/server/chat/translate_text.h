#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/service/generation.h"

namespace kvik::server {

// Whether the model answers a text with its translation.
bool translates_text(const LoadedModel& model);
// Throws ApiError(400): a model that translates cannot do what this field of the request asks for.
[[noreturn]] void refuse_for_translation(const LoadedModel& model, std::string_view field);

// The translation of each text as a choice of an answer. Throws as translate() does, and for options that a translation does not have.
void answer_with_translation(Service& service, const std::shared_ptr<Exchange>& exchange, const Registry::Handle& model,
                             const std::vector<std::string>& texts, const GenerateOptions& options, std::unique_ptr<AnswerWriter> writer);

// Translates; `done` gets the translations as run_task() does, after their tokens were counted. Throws as Engine::try_translate() does.
void translate(Service& service, const std::shared_ptr<Exchange>& exchange, const Registry::Handle& model,
               const std::vector<std::string>& texts, const TranslateOptions& options, std::function<void(std::vector<Translation>)> done);

}  // namespace kvik::server

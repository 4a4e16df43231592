#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "server/service/service.h"

namespace kvik::server {

// Submits a task to the engine of a model; nullopt if its queue is full.
template <class Result>
using SubmitTask = std::function<std::optional<Task<Result>>(Engine& engine, const RequestOptions& how)>;

// Runs a task for an exchange, and cancels it if the client disconnects. `done` gets the result on a thread of Service::prepare. Errors of
// the task and of `done`, and a timeout, become the answer. Throws ApiError(429) if the queue of the model is full, and what `submit`
// throws.
template <class Result>
void run_task(Service& service, const std::shared_ptr<Exchange>& exchange, const Registry::Handle& model, const SubmitTask<Result>& submit,
              std::function<void(Result)> done);

}  // namespace kvik::server

#include "api/task_state.h"

namespace kvik {

template <class Result>
Task<Result>::Task(std::shared_ptr<State> state) : state_(std::move(state)) {}
template <class Result>
Task<Result>::Task(Task&&) noexcept = default;
template <class Result>
Task<Result>& Task<Result>::operator=(Task&& other) noexcept {
  if (state_ != nullptr && state_ != other.state_) cancel();
  state_ = std::move(other.state_);
  return *this;
}
template <class Result>
Task<Result>::~Task() {
  if (state_ != nullptr) cancel();
}

template <class Result>
bool Task<Result>::is_done() const {
  const std::lock_guard lock(state_->mutex);
  return state_->has_ended;
}

template <class Result>
Result Task<Result>::get() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->has_ended; });
  if (state_->error) std::rethrow_exception(state_->error);
  if (!state_->result) throw Error(Code::kBadArgument, "the result of a task can be taken only once");
  Result result = std::move(*state_->result);
  state_->result.reset();
  return result;
}

template <class Result>
bool Task<Result>::was_cancelled() const {
  const std::lock_guard lock(state_->mutex);
  return state_->was_cancelled;
}

template <class Result>
bool Task<Result>::timed_out() const {
  const std::lock_guard lock(state_->mutex);
  return state_->timed_out;
}

template <class Result>
void Task<Result>::cancel() {
  state_->cancel.store(true, std::memory_order_relaxed);
}

template class Task<std::vector<Translation>>;
template class Task<Transcription>;
template class Task<std::vector<Embedding>>;
template class Task<Score>;

}  // namespace kvik

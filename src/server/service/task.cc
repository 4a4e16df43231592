#include "server/service/task.h"

#include <mutex>

namespace kvik::server {
namespace {

template <class Result>
class RunningTask : public std::enable_shared_from_this<RunningTask<Result>> {
 public:
  RunningTask(Service& service, std::shared_ptr<Exchange> exchange, Registry::Handle model, std::function<void(Result)> done)
      : service_(service), exchange_(std::move(exchange)), model_(std::move(model)), done_(std::move(done)) {}

  void start(const SubmitTask<Result>& submit) {
    RequestOptions how{.user = exchange_->user, .timeout = service_.options.timeout};
    how.on_update = [self = this->shared_from_this()] { self->wake(); };
    std::optional<Task<Result>> task = submit(*model_->engine, how);
    if (!task) {
      service_.metrics.add("kvik_rejections_total", labels());
      throw ApiError(429, "rate_limit_exceeded", "the queue of the model is full; try again");
    }
    {
      const std::lock_guard lock(mutex_);
      task_ = std::move(task);
    }
    exchange_->on_disconnect([weak = this->weak_from_this()] {
      if (const std::shared_ptr<RunningTask> self = weak.lock()) self->cancel();
    });
    finish_if_done();  // it may have ended before task_ was set
  }

 private:
  Labels labels() const { return {{"model", exchange_->model}}; }

  // On the thread of the engine.
  void wake() {
    const bool posted = service_.prepare.try_post([self = this->shared_from_this()] { self->finish_if_done(); });
    if (posted) return;
    exchange_->fail(ApiError(429, "rate_limit_exceeded", "too many requests are waiting; try again later"));
    const std::lock_guard lock(mutex_);
    task_.reset();
    model_ = nullptr;
  }

  void cancel() {
    const std::lock_guard lock(mutex_);
    if (!task_) return;
    service_.metrics.add("kvik_cancelled_total", labels());
    task_->cancel();
  }

  void finish_if_done() {
    std::optional<Task<Result>> task;
    {
      const std::lock_guard lock(mutex_);
      if (!task_ || !task_->is_done()) return;
      task.swap(task_);
    }
    if (!exchange_->is_gone()) answer(*task);
    done_ = nullptr;
    model_ = nullptr;
  }

  void answer(Task<Result>& task) {
    answer_errors(*exchange_, [&] {
      Result result = task.get();
      if (task.timed_out()) throw ApiError(504, "timeout", "the request timed out");
      if (task.was_cancelled()) throw ApiError(503, "", "the server stops");
      done_(std::move(result));
    });
  }

  Service& service_;
  std::shared_ptr<Exchange> exchange_;
  Registry::Handle model_;
  std::function<void(Result)> done_;
  std::mutex mutex_;
  std::optional<Task<Result>> task_;  // from its submission to its end
};

}  // namespace

template <class Result>
void run_task(Service& service, const std::shared_ptr<Exchange>& exchange, const Registry::Handle& model, const SubmitTask<Result>& submit,
              std::function<void(Result)> done) {
  std::make_shared<RunningTask<Result>>(service, exchange, model, std::move(done))->start(submit);
}

template void run_task(Service&, const std::shared_ptr<Exchange>&, const Registry::Handle&, const SubmitTask<std::vector<Translation>>&,
                       std::function<void(std::vector<Translation>)>);
template void run_task(Service&, const std::shared_ptr<Exchange>&, const Registry::Handle&, const SubmitTask<Transcription>&,
                       std::function<void(Transcription)>);
template void run_task(Service&, const std::shared_ptr<Exchange>&, const Registry::Handle&, const SubmitTask<std::vector<Embedding>>&,
                       std::function<void(std::vector<Embedding>)>);
template void run_task(Service&, const std::shared_ptr<Exchange>&, const Registry::Handle&, const SubmitTask<Score>&,
                       std::function<void(Score)>);

}  // namespace kvik::server

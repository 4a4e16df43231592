#pragma once

#include <memory>
#include <optional>

#include "api/call.h"
#include "api/request_state.h"
#include "kvik/engine.h"

namespace kvik {

template <class Result>
struct Task<Result>::State final : api::RequestState {
  State(std::unique_ptr<api::Call<Result>> of, const RequestOptions& options)
      : RequestState(options, of->cancelled()), call_(std::move(of)), work_(call_->work()) {}

  engine::Work& work() override { return work_; }
  void ended(bool cancelled, std::exception_ptr failure) override {
    std::optional<Result> whole;
    try {
      if (failure == nullptr) whole = call_->result(cancelled);
    } catch (...) { failure = std::current_exception(); }
    end(cancelled, std::move(failure), [&] {
      result = std::move(whole);
      was_cancelled = cancelled;
    });
  }

  // Behind the mutex:
  std::optional<Result> result;
  bool was_cancelled = false;

 private:
  std::unique_ptr<api::Call<Result>> call_;
  engine::Work& work_;
};

}  // namespace kvik

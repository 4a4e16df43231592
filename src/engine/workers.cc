#include "engine/workers.h"

namespace kvik::engine {

void Workers::prepare() {
  if (is_prepared_) return;  // before any call inside of a call, which only reads it
  is_prepared_ = true;
  const std::lock_guard lock(mutex_);
  const auto n = static_cast<size_t>(pool_->most_threads());
  while (idle_.size() < n) idle_.push_back(std::make_unique<sample::Workspace>());
  for (const std::unique_ptr<sample::Workspace>& workspace : idle_) workspace->reserve(vocab_);
}

std::unique_ptr<sample::Workspace> Workers::take() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<sample::Workspace>();
  std::unique_ptr<sample::Workspace> workspace = std::move(idle_.back());
  idle_.pop_back();
  return workspace;
}

void Workers::give_back(std::unique_ptr<sample::Workspace> workspace) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(workspace));
}

}  // namespace kvik::engine

#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "call.h"
#include "kvik/kvik.h"

namespace kvik::python {

// What Python objects hold of a model and of a session; destroyed without the GIL.
class ModelHandle {
 public:
  explicit ModelHandle(Model model) : model_(std::move(model)) {}
  ModelHandle(ModelHandle&&) = default;
  ModelHandle& operator=(ModelHandle&&) = delete;
  ~ModelHandle() {
    const ReleasedGil released;
    model_.reset();
  }
  const Model& model() const { return *model_; }

 private:
  std::optional<Model> model_;
};

// A session and whether a thread is using it. A generation that continues it has a share in it.
struct SharedSession {
  Session session;
  int vocab_size = 0;
  std::atomic<bool> in_use{false};
};

// Sessions are used by one thread at a time: while this lives, nobody else can. Throws Error(kBadArgument) if somebody does.
class SessionUse {
 public:
  explicit SessionUse(SharedSession& session) : session_(session) {
    if (session.in_use.exchange(true))
      throw Error(Code::kBadArgument, "the session is in use by another call; fork() it, or use it by one thread at a time");
  }
  ~SessionUse() { session_.in_use = false; }
  SessionUse(const SessionUse&) = delete;
  SessionUse& operator=(const SessionUse&) = delete;

 private:
  SharedSession& session_;
};

class SessionHandle {
 public:
  SessionHandle(Session session, int vocab_size) : shared_(new SharedSession{std::move(session), vocab_size}) {}
  SessionHandle(SessionHandle&&) = default;
  SessionHandle& operator=(SessionHandle&&) = delete;
  ~SessionHandle() { drop(shared_); }

  const std::shared_ptr<SharedSession>& shared() const { return shared_; }
  // Calls function(session) while nobody else uses it, with the GIL.
  template <class Function>
  auto use(const Function& function) const {
    const SessionUse use(*shared_);
    return function(shared_->session);
  }
  // The same without the GIL.
  template <class Function>
  auto compute(const Function& function) const {
    return Call().run([&] { return use(function); });
  }

 private:
  std::shared_ptr<SharedSession> shared_;
};

}  // namespace kvik::python

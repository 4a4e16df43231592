#include "server/service/registry.h"

#include <algorithm>
#include <condition_variable>
#include <fmt/format.h>
#include <future>
#include <iterator>
#include <list>
#include <malloc.h>
#include <mutex>
#include <thread>

#include "base/memory_info.h"
#include "server/json/api_error.h"

namespace kvik::server {
namespace {

using Clock = std::chrono::steady_clock;
using Ready = std::function<void(Registry::Handle, std::exception_ptr)>;

}  // namespace

struct Registry::State : std::enable_shared_from_this<Registry::State> {
  struct Entry {
    ModelFacts facts;
    std::unique_ptr<LoadedModel> loaded;
    std::vector<Ready> waiting;  // for it to be loaded
    int n_users = 0;
    Clock::time_point last_use = Clock::now();
    std::optional<std::chrono::seconds> keep_alive;  // instead of idle_unload; negative: for good
  };

  explicit State(const ServeOptions& with) : options(with) {
    budget = options.memory_bytes > 0 ? options.memory_bytes : available_memory_bytes();
  }

  Entry& find(std::string_view name) {
    if (name.ends_with(":latest")) name.remove_suffix(7);
    for (Entry& entry : entries) {
      if (entry.facts.name == name) return entry;
    }
    throw ApiError(404, "model_not_found", fmt::format("the model '{}' does not exist; this server has: {}", name.substr(0, 100), names()),
                   "model");
  }
  std::string names() const {
    std::string all;
    for (const Entry& entry : entries) all += (all.empty() ? "" : ", ") + entry.facts.name;
    return all;
  }

  // With the mutex held.
  Handle handle(Entry& entry) {
    ++entry.n_users;
    return {entry.loaded.get(), [self = shared_from_this(), &entry](const LoadedModel*) {
              const std::lock_guard lock(self->mutex);
              --entry.n_users;
              entry.last_use = Clock::now();
              self->changed.notify_all();
            }};
  }

  std::optional<Clock::time_point> unload_time(const Entry& entry) const {
    const std::chrono::seconds time =
        entry.keep_alive.value_or(options.idle_unload.count() > 0 ? options.idle_unload : std::chrono::seconds(-1));
    if (entry.loaded == nullptr || entry.n_users > 0 || time.count() < 0) return std::nullopt;
    return entry.last_use + time;
  }

  void run();
  void unload(Entry& entry, std::unique_lock<std::mutex>& lock);
  void make_room(const Entry& entry, std::unique_lock<std::mutex>& lock);
  void load(Entry& entry, std::unique_lock<std::mutex>& lock);
  std::unique_ptr<LoadedModel> read_model(const ModelFacts& facts) const;
  size_t bytes_of(const Entry& entry) const { return static_cast<size_t>(entry.facts.weights_bytes) + options.load.kv_bytes; }

  const ServeOptions options;
  size_t budget = 0;         // 0: unknown
  mutable std::mutex mutex;  // of what follows
  std::condition_variable changed;
  std::list<Entry> entries;
  bool stopping = false;
  int64_t n_loads = 0, n_unloads = 0;
  std::thread thread;
};

// The thread that loads and unloads: it takes seconds, and no other thread waits for it.
void Registry::State::run() {
  std::unique_lock lock(mutex);
  while (!stopping) {
    const auto wanted = std::ranges::find_if(entries, [](const Entry& entry) { return !entry.waiting.empty(); });
    if (wanted != entries.end()) {
      load(*wanted, lock);
      continue;
    }
    std::optional<Clock::time_point> next;
    Entry* first = nullptr;
    for (Entry& entry : entries) {
      const std::optional<Clock::time_point> time = unload_time(entry);
      if (time && (!next || *time < *next)) next = time, first = &entry;
    }
    if (!next) {
      changed.wait(lock);
    } else if (*next <= Clock::now()) {
      unload(*first, lock);
    } else {
      changed.wait_until(lock, *next);
    }
  }
  changed.wait(lock, [&] { return std::ranges::all_of(entries, [](const Entry& entry) { return entry.n_users == 0; }); });
  std::vector<Ready> waiting;
  std::vector<std::unique_ptr<LoadedModel>> loaded;
  for (Entry& entry : entries) {
    std::ranges::move(std::exchange(entry.waiting, {}), std::back_inserter(waiting));
    loaded.push_back(std::move(entry.loaded));
  }
  lock.unlock();  // an engine waits for its thread, and an answer may ask for a model
  for (const Ready& ready : waiting) ready(nullptr, std::make_exception_ptr(ApiError(503, "", "the server stops")));
}

void Registry::State::unload(Entry& entry, std::unique_lock<std::mutex>& lock) {
  std::unique_ptr<LoadedModel> old = std::move(entry.loaded);
  entry.keep_alive.reset();
  ++n_unloads;
  lock.unlock();
  old = nullptr;
#ifdef __GLIBC__
  malloc_trim(0);  // what was freed between allocations that stay goes back to the system too
#endif
  lock.lock();
}

void Registry::State::make_room(const Entry& wanted, std::unique_lock<std::mutex>& lock) {
  for (;;) {
    size_t used = bytes_of(wanted);
    Entry* oldest = nullptr;
    for (Entry& entry : entries) {
      if (entry.loaded == nullptr) continue;
      used += bytes_of(entry);
      if (entry.n_users == 0 && (oldest == nullptr || entry.last_use < oldest->last_use)) oldest = &entry;
    }
    if (budget == 0 || used <= budget) return;
    if (oldest == nullptr)
      throw ApiError(503, "",
                     fmt::format("{} needs {} bytes, and the models in use leave too few of {}; try again later", wanted.facts.name,
                                 bytes_of(wanted), budget));
    unload(*oldest, lock);
  }
}

std::unique_ptr<LoadedModel> Registry::State::read_model(const ModelFacts& facts) const {
  LoadOptions load = options.load;
  load.log = options.log;
  Model model = Model::load(facts.path, load);
  auto engine = std::make_unique<Engine>(model, EngineOptions{.max_sequences = options.max_sequences, .max_queue = options.queue});
  return std::make_unique<LoadedModel>(
      LoadedModel{facts, std::move(model), std::move(engine), ChatTemplate::load(facts.path), std::chrono::system_clock::now()});
}

void Registry::State::load(Entry& entry, std::unique_lock<std::mutex>& lock) {
  std::unique_ptr<LoadedModel> loaded;
  std::exception_ptr error;
  try {
    make_room(entry, lock);
    lock.unlock();
    loaded = read_model(entry.facts);
  } catch (...) { error = std::current_exception(); }
  if (!lock.owns_lock()) lock.lock();
  if (loaded != nullptr) {
    entry.loaded = std::move(loaded);
    entry.last_use = Clock::now();
    ++n_loads;
  }
  for (const Ready& ready : std::exchange(entry.waiting, {})) {
    Handle model = error == nullptr ? handle(entry) : nullptr;
    lock.unlock();
    ready(std::move(model), error);
    model = nullptr;  // without the lock, which its end takes
    lock.lock();
  }
}

Registry::Registry(const std::vector<std::string>& models, const ServeOptions& options) : state_(std::make_shared<State>(options)) {
  for (const std::string& model : models) {
    if (!add(model))
      throw Error(Code::kBadArgument, fmt::format("two models are called '{}'; requests cannot distinguish them", model_name(model)));
  }
  if (state_->entries.empty()) throw Error(Code::kBadArgument, "a server needs at least one model");
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

bool Registry::add(const std::string& model) {
  ModelFacts facts = read_facts(model, state_->options.load);
  const std::lock_guard lock(state_->mutex);
  const bool twice = std::ranges::any_of(state_->entries, [&](const State::Entry& entry) { return entry.facts.name == facts.name; });
  if (!twice) state_->entries.emplace_back().facts = std::move(facts);
  return !twice;
}

bool Registry::has(std::string_view name) const {
  try {
    facts(name);
    return true;
  } catch (const ApiError&) { return false; }
}

Registry::~Registry() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

void Registry::acquire(std::string_view name, Ready ready) {
  Handle loaded;
  {
    const std::lock_guard lock(state_->mutex);
    State::Entry& entry = state_->find(name);
    if (entry.loaded == nullptr) {
      entry.waiting.push_back(std::move(ready));
      state_->changed.notify_all();
      return;
    }
    loaded = state_->handle(entry);
  }
  ready(std::move(loaded), nullptr);
}

Registry::Handle Registry::load_now(std::string_view name) {
  const auto promise = std::make_shared<std::promise<Handle>>();
  std::future<Handle> future = promise->get_future();
  acquire(name, [promise](Handle model, std::exception_ptr error) {
    if (error) return promise->set_exception(error);
    promise->set_value(std::move(model));
  });
  return future.get();
}

void Registry::set_keep_alive(std::string_view name, std::chrono::seconds time) {
  const std::lock_guard lock(state_->mutex);
  state_->find(name).keep_alive = time;
  state_->changed.notify_all();
}

void Registry::unload(std::string_view name) {
  const std::lock_guard lock(state_->mutex);
  State::Entry& entry = state_->find(name);
  if (entry.loaded != nullptr) entry.keep_alive = std::chrono::seconds(0);
  state_->changed.notify_all();
}

std::vector<Registry::Status> Registry::list() const {
  std::vector<Status> all;
  const std::lock_guard lock(state_->mutex);
  for (State::Entry& entry : state_->entries) {
    Status status{entry.facts, nullptr, std::nullopt};
    if (entry.loaded != nullptr) {
      const std::optional<Clock::time_point> time = state_->unload_time(entry);
      if (time)
        status.unload_at =
            std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::system_clock::duration>(*time - Clock::now());
      const Clock::time_point last_use = entry.last_use;
      ++entry.n_users;
      status.loaded = {entry.loaded.get(), [state = state_, &entry, last_use](const LoadedModel*) {
                         const std::lock_guard guard(state->mutex);
                         --entry.n_users;
                         entry.last_use = std::max(last_use, entry.last_use);
                         state->changed.notify_all();
                       }};
    }
    all.push_back(std::move(status));
  }
  return all;
}

const ModelFacts& Registry::facts(std::string_view name) const {
  const std::lock_guard lock(state_->mutex);
  return state_->find(name).facts;
}

int64_t Registry::n_loads() const {
  const std::lock_guard lock(state_->mutex);
  return state_->n_loads;
}

int64_t Registry::n_unloads() const {
  const std::lock_guard lock(state_->mutex);
  return state_->n_unloads;
}

}  // namespace kvik::server

#pragma once

#include <ctime>
#include <functional>
#include <initializer_list>

#include "text/template/dict.h"
#include "text/template/fault.h"
#include "text/template/limits.h"
#include "text/template/object.h"
#include "text/template/value.h"

namespace kvik::text::jinja {

// Local time for strftime_now().
struct Moment {
  std::tm local = {};
  int microseconds = 0;
};
using Clock = std::function<Moment()>;

// The state of one rendering: used resources, live values, clock. One thread; its values must not outlive it.
class Runtime {
 public:
  Runtime(const Limits& limits, Clock clock) : limits_(limits), steps_left_(limits.steps), clock_(std::move(clock)) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime();

  const Limits& limits() const { return limits_; }
  Moment now() const { return clock_(); }
  int64_t& steps_left() { return steps_left_; }
  void step(int64_t n = 1) {
    steps_left_ -= n;
    if (steps_left_ < 0) out_of_steps();
  }
  // Counts steps for processing this many bytes of text.
  void work(size_t n_bytes) { step(static_cast<int64_t>(n_bytes / 64)); }
  // Call before allocating this much.
  void check_room(size_t n_bytes) const;

  Value text(std::string utf8, bool is_markup = false);
  Value list(std::vector<Value> values) { return items(Kind::kList, std::move(values)); }
  Value tuple(std::vector<Value> values) { return items(Kind::kTuple, std::move(values)); }
  Value dict(std::shared_ptr<Dict> dict);
  Value object(std::shared_ptr<Object> object);
  Value undefined(std::string why);
  Value whole(BigInt value);
  Value generator(std::unique_ptr<Iterator> source, const Value& of);
  Value function(std::string_view name, Function::Body body, Value self = {});
  // Mutable objects can form reference cycles; they are cleared at the end.
  void empty_at_end(std::function<void()> empty) { at_end_.push_back(std::move(empty)); }

  // A nested macro or recursive loop.
  class Call {
   public:
    explicit Call(Runtime& runtime);
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() { --runtime_.call_depth_; }

   private:
    Runtime& runtime_;
  };

 private:
  [[noreturn]] void out_of_steps() const;
  void account(Cell& cell, size_t n_bytes);
  Value items(Kind kind, std::vector<Value> values);

  Meter meter_;
  Limits limits_;
  int64_t steps_left_;
  int call_depth_ = 0;
  Clock clock_;
  std::vector<std::function<void()>> at_end_;
};

// The parameters of one call, bound by position and name as in Python; null if not given.
class Parameters {
 public:
  // The first `n_required` of `names` must be given.
  Parameters(std::string_view function, const Args& args, std::initializer_list<std::string_view> names, size_t n_required = 0);

  const Value* operator[](size_t i) const { return values_[i]; }
  const Value& required(size_t i) const { return *values_[i]; }
  // The given value's, or `otherwise` when absent or none. Throw when it is of another type.
  int64_t integer(size_t i, int64_t otherwise) const;
  std::string_view text(size_t i, std::string_view otherwise) const;
  bool truth(Runtime& runtime, size_t i, bool otherwise) const;

 private:
  static constexpr size_t kMost = 6;
  std::string_view function_;
  const Value* values_[kMost] = {};
};

// What Python does with values in general.
bool truth(Runtime& runtime, const Value& value);
std::unique_ptr<Iterator> iterate(Runtime& runtime, const Value& value);            // throws where Python cannot iterate
std::unique_ptr<Iterator> try_iterate(Runtime& runtime, const Value& value);        // null there
std::unique_ptr<Iterator> iterate_backwards(Runtime& runtime, const Value& value);  // null where reversed() raises
std::vector<Value> collect(Runtime& runtime, const Value& iterable);                // list(iterable)
std::optional<int64_t> try_length(Runtime& runtime, const Value& value);
int64_t length(Runtime& runtime, const Value& value);
bool contains(Runtime& runtime, const Value& container, const Value& item);
// An index or count; throws if it is not an integer. Values out of range are clamped.
int64_t to_index(const Value& value, std::string_view what);
const std::string& to_text(const Value& value, std::string_view what);  // throws unless it is text

}  // namespace kvik::text::jinja

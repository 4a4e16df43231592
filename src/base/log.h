#pragma once

#include <functional>
#include <string_view>

#include "kvik/types.h"

namespace kvik {

// Where the library says what it chose and what it fell back to. It never prints by itself: without a sink nothing happens.
// A sink must be callable from any thread.
class Log {
 public:
  using Sink = std::function<void(LogLevel, std::string_view sentence)>;

  Log() = default;
  explicit Log(Sink sink) : sink_(std::move(sink)) {}

  void debug(std::string_view sentence) const { say(LogLevel::kDebug, sentence); }
  void info(std::string_view sentence) const { say(LogLevel::kInfo, sentence); }
  void warning(std::string_view sentence) const { say(LogLevel::kWarning, sentence); }
  void error(std::string_view sentence) const { say(LogLevel::kError, sentence); }

  void say(LogLevel level, std::string_view sentence) const {
    if (sink_) sink_(level, sentence);
  }

 private:
  Sink sink_;
};

}  // namespace kvik

#pragma once

#include <functional>
#include <string_view>

#include "kvik/types.h"

namespace kvik {

// Receives the library's messages: choices, fallbacks, warnings. The library itself never prints; without a sink, messages are dropped.
// A sink must be callable from any thread.
class Log {
 public:
  using Sink = std::function<void(LogLevel, std::string_view message)>;

  Log() = default;
  explicit Log(Sink sink) : sink_(std::move(sink)) {}

  void debug(std::string_view message) const { log(LogLevel::kDebug, message); }
  void info(std::string_view message) const { log(LogLevel::kInfo, message); }
  void warning(std::string_view message) const { log(LogLevel::kWarning, message); }
  void error(std::string_view message) const { log(LogLevel::kError, message); }

  void log(LogLevel level, std::string_view message) const {
    if (sink_) sink_(level, message);
  }

 private:
  Sink sink_;
};

}  // namespace kvik

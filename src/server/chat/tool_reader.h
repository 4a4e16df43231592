#pragma once

#include "server/chat/json_extent.h"
#include "server/chat/tool_format.h"

namespace kvik::server {

struct ToolReading {
  std::vector<std::string> names;  // of the tools that may be called
  bool is_forced = false;          // the answer is a call and nothing else
  bool only_one = false;           // further calls are dropped
};

// Takes calls of tools out of an answer as it arrives. What may become a call is held back until it is one or is not.
class ToolReader {
 public:
  ToolReader(ToolFormat format, ToolReading how) : format_(std::move(format)), how_(std::move(how)) {}

  struct Found {
    std::string content;
    std::vector<ToolCall> calls;
  };
  Found push(std::string_view text);
  // After the last text. `is_cut`: a limit ended it, so what has begun as a call is one, with as much of its arguments as there is.
  Found flush(bool is_cut = false);

 private:
  bool take_text(Found& found);
  bool take_call(Found& found);
  void give_up(Found& found);
  void take_begun_call(Found& found);
  void add_calls(Found& found, std::vector<ToolCall> calls);

  ToolFormat format_;
  ToolReading how_;
  size_t n_calls_ = 0;
  std::string held_;
  bool in_call_ = false;
  std::string opening_;      // of the call: what was removed in front of it
  JsonExtent extent_;        // of the call, in held_
  bool has_begun_ = false;   // some text was not a call
  bool after_call_ = false;  // spaces and the suffix are dropped
};

}  // namespace kvik::server

#pragma once

#include "server/chat/json_extent.h"
#include "server/chat/tool_format.h"

namespace kvik::server {

struct ToolReading {
  std::vector<std::string> names;  // of the available tools
  bool is_forced = false;          // the answer consists of a call only
  bool only_one = false;           // further calls are dropped
};

// Extracts tool calls from an answer as it arrives. Text that may be the beginning of a call is held back until this is certain.
class ToolReader {
 public:
  ToolReader(ToolFormat format, ToolReading how) : format_(std::move(format)), how_(std::move(how)) {}

  struct Found {
    std::string content;
    std::vector<ToolCall> calls;
  };
  Found push(std::string_view text);
  // Call after the last text. `is_cut`: a limit ended the answer, so an incomplete call is returned with the arguments so far.
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
  std::string opening_;      // the text removed before the call
  JsonExtent extent_;        // of the call, in held_
  bool has_begun_ = false;   // some text that is not a call has been returned
  bool after_call_ = false;  // spaces and the suffix are dropped
};

}  // namespace kvik::server

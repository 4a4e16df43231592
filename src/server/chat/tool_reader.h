#pragma once

#include "server/chat/json_extent.h"
#include "server/chat/tool_format.h"

namespace kvik::server {

// Takes calls of tools out of an answer as it arrives. What may become a call is held back until it is one or is not.
class ToolReader {
 public:
  ToolReader(ToolFormat format, std::vector<std::string> names) : format_(std::move(format)), names_(std::move(names)) {}

  struct Found {
    std::string content;
    std::vector<ToolCall> calls;
  };
  Found push(std::string_view text);
  Found flush();  // after the last text

 private:
  bool take_text(Found& found);
  bool take_call(Found& found);
  void give_up(Found& found);

  ToolFormat format_;
  std::vector<std::string> names_;
  std::string held_;
  bool in_call_ = false;
  std::string opening_;      // of the call: what was removed in front of it
  JsonExtent extent_;        // of the call, in held_
  bool has_begun_ = false;   // some text was not a call
  bool after_call_ = false;  // spaces and the suffix are dropped
};

}  // namespace kvik::server

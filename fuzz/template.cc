// Any bytes as a template, rendered on a fixed conversation: text or an Error, within the limits.
#include "text/template/template.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kvik/error.h"
#include "text/template/json.h"

namespace {

constexpr std::string_view kVariables =
    R"({"messages": [{"role": "system", "content": "Be <brief>."}, {"role": "user", "content": "Hi é 日本\n"},
  {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1, "y": [0.5, "z"]}}}]}],
  "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}], "bos_token": "<s>", "n": 12345678901234567890,
  "l": [3, 1, 2], "d": {"b": 1.5, "a": true}, "add_generation_prompt": true})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvik::text::jinja;
  static const Value kGiven = from_json(kVariables, "the variables");
  const Limits limits{.steps = 100'000, .memory_bytes = size_t{8} << 20, .output_bytes = size_t{1} << 20, .call_depth = 50};
  const auto clock = [] { return *parse_moment("2025-03-04T15:09:26"); };
  try {
    Template({reinterpret_cast<const char*>(data), size}).render(kGiven.as_dict(), clock, limits);
  } catch (const kvik::Error&) {  // a correct result
  }
  return 0;
}

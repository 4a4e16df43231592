#pragma once

#include <cstddef>
#include <cstdint>

namespace kvik::text::jinja {

// What one rendering may cost. A template comes with a model from anywhere: past any of these it gets a sentence.
struct Limits {
  int64_t steps = 50'000'000;               // expressions evaluated, items visited, 64 bytes of text handled: a few seconds
  size_t memory_bytes = size_t{256} << 20;  // all values alive at once
  size_t output_bytes = size_t{64} << 20;   // the rendered text
  int call_depth = 200;                     // macros and recursive loops inside one another
};

constexpr int kMaxStackDepth = 1500;       // expressions and statements being evaluated inside one another, macros included
constexpr int kMaxNesting = 500;           // lists in lists in lists; the reference stops near 1000
constexpr int kMaxExpressionHeight = 400;  // operators on operators; the reference stops near 250
constexpr int kMaxStatementDepth = 100;    // blocks in blocks; the reference stops at 100
constexpr size_t kMaxTemplateBytes = size_t{4} << 20;
constexpr int64_t kMaxRange = 100'000;  // the reference sandbox's limit on range()

}  // namespace kvik::text::jinja

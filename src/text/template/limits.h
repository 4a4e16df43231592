#pragma once

#include <cstddef>
#include <cstdint>

namespace kvik::text::jinja {

// Limits for one rendering: templates come with models and are not trusted. Exceeding one is an error.
struct Limits {
  int64_t steps = 50'000'000;               // evaluated expressions, visited items, 64 bytes of processed text: a few seconds
  size_t memory_bytes = size_t{256} << 20;  // of all live values
  size_t output_bytes = size_t{64} << 20;   // the rendered text
  int call_depth = 200;                     // nested macros and recursive loops
};

constexpr int kMaxStackDepth = 1500;       // nested expressions and statements, including macros
constexpr int kMaxNesting = 500;           // nested lists; the limit of the reference is near 1000
constexpr int kMaxExpressionHeight = 400;  // nested operators; the limit of the reference is near 250
constexpr int kMaxStatementDepth = 100;    // nested blocks; the limit of the reference is 100
constexpr size_t kMaxTemplateBytes = size_t{4} << 20;
constexpr int64_t kMaxRange = 100'000;  // the reference sandbox's limit on range()

}  // namespace kvik::text::jinja

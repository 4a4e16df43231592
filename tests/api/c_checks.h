#pragma once

#include "kvik/kvik_c.h"

// A check returns the first expression that was false.
#define TEXT_OF(line) #line
#define LINE(line) TEXT_OF(line)
#define CHECK(condition) \
  if (!(condition)) return "line " LINE(__LINE__) ": " #condition
#define OK(call) CHECK((call) == KVIK_STATUS_OK)

static inline kvik_model* load(const char* folder) {
  kvik_load_options options;
  kvik_load_options_init(&options, sizeof options);
  options.threads = 2;
  kvik_model* model = NULL;
  return kvik_model_load(folder, &options, &model) == KVIK_STATUS_OK ? model : NULL;
}

static inline kvik_generate_options greedy(int32_t max_tokens) {
  kvik_generate_options options;
  kvik_generate_options_init(&options, sizeof options);
  options.max_tokens = max_tokens;
  return options;
}

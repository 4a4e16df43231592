#pragma once

#include <cstdint>
#include <vector>

#include "base/json.h"
#include "base/token.h"
#include "sample/sampler.h"

namespace kvik::sample {

// The same logits as in tests/fixtures/make/sampling.py.
uint64_t mix(uint64_t x);
std::vector<float> fixture_row(uint64_t seed, size_t vocab, double spread, int64_t levels = int64_t{1} << 24);

// A file of tests/fixtures/sampling.
Json sampling_fixture(const std::string& name);

// From the names of generate(); greedy unless do_sample is set.
Sampling options_from(const Json& options);
TokenRules rules_from(const Json& options, size_t vocab_size);

// A number or a list of them.
std::vector<TokenId> ids_from(const Json& value);

}  // namespace kvik::sample

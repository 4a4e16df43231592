#include "sample/fixture.h"

#include "support/paths.h"

namespace kvik::sample {

uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

std::vector<float> fixture_row(uint64_t seed, size_t vocab, double spread, int64_t levels) {
  std::vector<float> row(vocab);
  const uint64_t base = mix(seed);
  for (size_t i = 0; i < vocab; ++i) {
    const int64_t step = static_cast<int64_t>(mix(base + i) >> 40) * levels >> 24;
    row[i] = static_cast<float>(static_cast<double>(step - levels / 2) * (spread / static_cast<double>(levels)));
  }
  return row;
}

Json sampling_fixture(const std::string& name) { return read_json_file(testing_support::fixtures() / "sampling" / name); }

std::vector<TokenId> ids_from(const Json& value) {
  if (value.is_null()) return {};
  return value.is_number() ? std::vector<TokenId>{value.get<TokenId>()} : value.get<std::vector<TokenId>>();
}

Sampling options_from(const Json& options) {
  Sampling sampling;
  for (const SamplingField& field : sampling_fields()) {
    const auto found = options.find(field.name);
    if (found == options.end() || found->is_null()) continue;
    const Json& value = *found;
    std::visit(
        [&]<class T>(std::optional<T> Sampling::*member) {
          if constexpr (std::is_same_v<T, std::vector<TokenId>>) {
            sampling.*member = ids_from(value);
          } else if constexpr (std::is_same_v<T, std::vector<SequenceBias>>) {
            (sampling.*member).emplace();
            for (const Json& entry : value) (sampling.*member)->push_back({ids_from(entry[0]), entry[1].get<double>()});
          } else if constexpr (std::is_same_v<T, DecayLengthPenalty>) {
            sampling.*member = {value[0].get<int>(), value[1].get<double>()};
          } else {
            sampling.*member = value.get<T>();
          }
        },
        field.member);
  }
  sampling.temperature = options.value("do_sample", false) ? options.value("temperature", 1.0) : 0.0;
  return sampling;
}

TokenRules rules_from(const Json& options, size_t vocab_size) {
  return {vocab_size, options.contains("eos_token_id") ? ids_from(options["eos_token_id"]) : std::vector<TokenId>(), {}};
}

}  // namespace kvik::sample

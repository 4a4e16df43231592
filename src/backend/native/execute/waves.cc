#include "backend/native/execute/waves.h"

#include <algorithm>

namespace kvik::native {

bool runs_in_waves(const Plan& plan, const RunCall& call) {
  const auto same_sequence = [](const RunRow& a, const RunRow& b) { return a.sequence == b.sequence; };
  const bool in_order = plan.one_token || !plan.registers.empty();
  return in_order && std::ranges::adjacent_find(call.rows, same_sequence) != call.rows.end();
}

void Waves::run(const RunCall& call, int64_t output_size, const std::function<void(const RunCall&)>& run_rows) {
  std::vector<size_t> next(call.sequences.size(), call.rows.size());
  for (size_t i = call.rows.size(); i-- > 0;) next[static_cast<size_t>(call.rows[i].sequence)] = i;
  const auto size = static_cast<size_t>(output_size);
  const auto stride = static_cast<size_t>(call.stride_of_output(output_size));
  const size_t embedding = call.embeddings.size() / std::max<size_t>(1, call.rows.size());
  for (;;) {
    rows_.clear(), tokens_.clear(), wanted_.clear(), output_rows_.clear(), embeddings_.clear();
    for (size_t s = 0; s < next.size(); ++s) {
      const size_t i = next[s];
      if (i >= call.rows.size() || call.rows[i].sequence != static_cast<int32_t>(s)) continue;
      next[s] = i + 1;
      const auto wanted = std::find(call.wanted.begin(), call.wanted.end(), static_cast<int32_t>(i));
      if (wanted != call.wanted.end()) {
        wanted_.push_back(static_cast<int32_t>(rows_.size()));
        output_rows_.push_back(static_cast<int32_t>(wanted - call.wanted.begin()));
      }
      rows_.push_back(call.rows[i]);
      if (!call.tokens.empty()) tokens_.push_back(call.tokens[i]);
      const auto from = call.embeddings.begin() + static_cast<ptrdiff_t>(i * embedding);
      embeddings_.insert(embeddings_.end(), from, from + static_cast<ptrdiff_t>(embedding));
    }
    if (rows_.empty()) return;
    output_.resize(wanted_.size() * size);
    run_rows({rows_, call.sequences, tokens_, embeddings_, wanted_, output_.data()});
    for (size_t i = 0; i < output_rows_.size(); ++i)
      std::copy_n(output_.data() + i * size, size, call.output + static_cast<size_t>(output_rows_[i]) * stride);
  }
}

}  // namespace kvik::native

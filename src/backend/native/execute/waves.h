#pragma once

#include <functional>
#include <vector>

#include "backend/native/execute/call.h"
#include "backend/native/plan/plan.h"

namespace kvik::native {

// Whether rows of one sequence must run one after another, because each reads state that the previous one wrote.
bool runs_in_waves(const Plan& plan, const RunCall& call);

// The first rows of all sequences, then the second ones, …
class Waves {
 public:
  void run(const RunCall& call, int64_t output_size, const std::function<void(const RunCall&)>& run_rows);

 private:
  std::vector<RunRow> rows_;
  std::vector<int64_t> tokens_;
  std::vector<int32_t> wanted_, output_rows_;
  std::vector<float> embeddings_, output_;
};

}  // namespace kvik::native

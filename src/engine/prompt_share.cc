#include "engine/prompt_share.h"

#include <algorithm>

namespace kvik::engine {

void PromptShare::add_step(double ms) {
  if (ms > max_step_ms_) {
    rows_ = std::max(kFewestRows, static_cast<size_t>(static_cast<double>(rows_) * std::max(0.25, max_step_ms_ / ms)));
  } else if (ms < max_step_ms_ / 2) {
    rows_ = std::min(most_rows_, rows_ + rows_ / 4 + 1);
  }
  rows_ = std::min(rows_, most_rows_);
}

}  // namespace kvik::engine

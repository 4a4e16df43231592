#include "api/c/boundary.h"

using namespace kvik::c;

kvik_status kvik_score(const kvik_model* model, const int32_t* ids, size_t n_ids, int32_t window, double* logprobs, size_t capacity,
                       size_t* n_logprobs) {
  return guarded([&] {
    const kvik::Score score = given(model, "model").model.score(list(ids, n_ids, "ids"), {.window = window});
    return hand_over(score.logprobs.data(), score.logprobs.size(), 0, logprobs, capacity, n_logprobs);
  });
}

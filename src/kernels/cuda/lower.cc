#include "kernels/cuda/lower.h"

#include <array>

#include "kernels/cuda/lower_attention.h"
#include "kernels/cuda/lower_chain.h"
#include "kernels/cuda/lower_decode.h"
#include "kernels/cuda/lower_products.h"
#include "kernels/cuda/lower_quick.h"
#include "kernels/cuda/lower_rows.h"
#include "kernels/cuda/lower_stream.h"
#include "kernels/cuda/rotaries.h"

namespace kvik::cuda {
namespace {

using namespace device;

void lower_step(const Begin& step, LaunchList& list) { list.add("rows_begin", {4}, 256, 0, step); }
// Few rows of many logits: clusters, as long as they run at the same time.
void lower_step(const Choose& step, LaunchList& list) {
  constexpr int kManyLogits = 1 << 14;
  unsigned cluster = kMostChooseBlocks;
  while (cluster > 1 && step.rows.most * static_cast<int>(cluster) > list.target().n_units) cluster /= 2;
  if (step.n >= kManyLogits && cluster > 1) {
    list.add("choose_together", {step.rows.most * static_cast<int>(cluster)}, kChooseThreads, 0, ChooseLaunch{step}).cluster = cluster;
    return;
  }
  list.add("choose_rows", {std::min(step.rows.most, list.target().n_units * 2)}, kChooseThreads, 0, ChooseLaunch{step});
}
void lower_step(const Matrix& step, LaunchList& list) { lower_product(step, list); }
void lower_step(const Attend& step, LaunchList& list) { lower_attention(step, list); }
template <class T>
void lower_step(const T& step, LaunchList& list) {
  if constexpr (std::is_constructible_v<Action, T>) list.add(Action(step));
}

// Fuses steps, starting at `at`, into one launch. Returns the number of steps, 0 if they do not match. The first fuser that matches is
// used.
using Fuser = size_t (*)(std::span<const Step> steps, size_t at, LaunchList& list);
constexpr std::array<Fuser, 5> kFusers = {lower_quick, lower_stream, lower_decode, lower_append, lower_chain};

size_t fuse(std::span<const Step> steps, size_t at, LaunchList& list) {
  for (const Fuser fuser : kFusers)
    if (const size_t n = fuser(steps, at, list); n > 0) return n;
  return 0;
}

}  // namespace

std::vector<Action> lower(std::span<const Step> steps, const Target& target) {
  LaunchList list(target);
  RowLowering rows(list);
  for (size_t at = 0; at < steps.size();) {
    if (const size_t n = fuse(steps, at, list); n > 0) {
      at += n;
      continue;
    }
    list.set_largest(std::nullopt);
    if (!rows.add(steps[at])) std::visit([&](const auto& args) { lower_step(args, list); }, steps[at]);
    ++at;
  }
  return list.take();
}

}  // namespace kvik::cuda

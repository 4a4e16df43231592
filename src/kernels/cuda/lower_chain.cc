#include "kernels/cuda/lower_chain.h"

#include <algorithm>
#include <fmt/format.h>

#include "kernels/cuda/row_uses.h"
#include "kernels/device/order.h"

namespace kvik::cuda {
namespace {

using namespace device;

bool is_all(const Selection& selection) { return selection.base == Address::kNone; }
bool is_there(const View& view) { return view.base != Address::kNone; }
bool is_constant(const View& view) { return !is_there(view) || (view.stride == 0 && !view.by_position); }

// Read and written 16 bytes at a time, without a look at the row's position.
bool is_plain(const View& view) { return !view.by_position && view.stride % 16 == 0 && static_cast<uint64_t>(view.base) % 16 == 0; }

class Chain {
 public:
  // Whether the step could be added.
  bool add(const Step& step) {
    Chain longer = *this;
    const bool added = std::visit(
        [&]<class T>(const T& args) {
          if constexpr (std::is_same_v<T, Elementwise> || std::is_same_v<T, Norm> || std::is_same_v<T, ToHalf>)
            return is_all(args.selection) && longer.has_rows(args.rows) && longer.take(args) && longer.is_apart(step);
          return false;
        },
        step);
    if (added) *this = longer;
    return added;
  }
  const ChainLaunch& launch() const { return launch_; }

 private:
  // A thread may read and write the same elements, but nobody what another thread or block reads or writes.
  bool is_apart(const Step& step) {
    const int most = launch_.rows.most;
    for (const MemoryUse& use : row_uses(step)) {
      const auto meets = [&](const MemoryUse& other) { return meets_other_elements(use, other, most); };
      if (std::ranges::any_of(uses_, meets)) return false;
      uses_.push_back(use);
    }
    return true;
  }

  bool has_rows(const Rows& rows) {
    if (launch_.n != 0 && !is_same(rows, launch_.rows)) return false;
    launch_.rows = rows;
    return true;
  }

  // The row that a step begins with: the first one's is read, others have it from the step before.
  bool begins_with(const View& x, int64_t n) {
    if (n <= 0 || n % 4 != 0 || !is_plain(x)) return false;
    if (launch_.n != 0) return n == launch_.n && is_same(x, last_);
    constexpr int64_t kMost = int64_t{kChainMostThreads} * 4 * 8;
    if (n > kMost) return false;
    launch_.n = static_cast<int32_t>(n);
    launch_.x = x;
    return true;
  }

  bool take(const Elementwise& step) {
    const auto is_whole = [&](int i) { return step.spread[i] == Spread::kAll || (step.spread[i] == Spread::kEvery && step.groups == 1); };
    ChainJoin join{.unary = step.unary};
    switch (step.kind) {
      case Elementwise::Kind::kUnary: join.kind = ChainJoin::Kind::kUnary; break;
      case Elementwise::Kind::kGate: join.kind = ChainJoin::Kind::kGate; break;
      case Elementwise::Kind::kBinary:
        if (step.binary != Binary::kAdd && step.binary != Binary::kMul) return false;
        join.kind = step.binary == Binary::kAdd ? ChainJoin::Kind::kAdd : ChainJoin::Kind::kMultiply;
        break;
      default: return false;
    }
    const bool joins = join.kind != ChainJoin::Kind::kUnary;
    if (n_joins_ == kChainJoins || launch_.norm.there || launch_.half.there || !is_plain(step.out) || !is_whole(0)) return false;
    if (joins && (!is_whole(1) || !is_plain(step.in[1]))) return false;
    View first = step.in[0], second = step.in[1];
    const bool turns = join.kind == ChainJoin::Kind::kAdd || join.kind == ChainJoin::Kind::kMultiply;
    if (turns && launch_.n != 0 && !is_same(first, last_)) std::swap(first, second);
    if (!begins_with(first, step.n)) return false;
    join.with = joins ? second : View{};
    join.out = last_ = step.out;
    launch_.joins[n_joins_++] = join;
    return true;
  }

  bool take(const Norm& step) {
    if (step.groups != 1 || launch_.norm.there || launch_.half.there || !is_plain(step.out)) return false;
    if (!is_constant(step.weight) || !is_constant(step.bias) || !is_plain(step.weight) || !is_plain(step.bias)) return false;
    if (!begins_with(step.x, step.n)) return false;
    launch_.norm = {step.weight, step.bias, step.out, step.epsilon, step.centered, true};
    last_ = step.out;
    return true;
  }

  bool take(const ToHalf& step) {
    if (step.parts != 1 || launch_.half.there || !is_plain(step.out) || step.scale.by_position || !begins_with(step.x, step.k))
      return false;
    launch_.half = {step.out, step.scale, step.planes, step.padded_k, true};
    return true;
  }

  ChainLaunch launch_{};
  View last_;  // what the last step has made
  int n_joins_ = 0;
  std::vector<MemoryUse> uses_;
};

}  // namespace

size_t lower_chain(std::span<const Step> steps, size_t at, LaunchList& list) {
  Chain chain;
  size_t n_steps = 0;
  while (at + n_steps < steps.size() && chain.add(steps[at + n_steps])) ++n_steps;
  const ChainLaunch& launch = chain.launch();
  // A single join may be in the middle of steps that share a launch.
  if (!list.target().chains_rows || n_steps == 0 || !(launch.norm.there || launch.half.there || n_steps > 1)) return 0;
  int vectors = 1;
  while (ceil_div(launch.n, int64_t{4} * vectors) > (vectors == 1 ? 512 : kChainMostThreads)) vectors *= 2;
  const int n_threads = ceil_div(launch.n, int64_t{128} * vectors) * 32;
  const int shared_bytes = launch.norm.there ? (launch.n + kStrands) * 4 : 0;
  list.add(fmt::format("chain_{}", vectors), {launch.rows.most}, n_threads, shared_bytes, launch);
  return n_steps;
}

}  // namespace kvik::cuda

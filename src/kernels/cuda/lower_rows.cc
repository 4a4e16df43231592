#include "kernels/cuda/lower_rows.h"

#include <optional>

namespace kvik::cuda {
namespace {

using namespace device;

template <class T>
constexpr std::optional<RowKind> kRowKind = std::nullopt;
template <>
constexpr std::optional<RowKind> kRowKind<Embed> = RowKind::kEmbed;
template <>
constexpr std::optional<RowKind> kRowKind<ToHalf> = RowKind::kToHalf;
template <>
constexpr std::optional<RowKind> kRowKind<Elementwise> = RowKind::kElementwise;
template <>
constexpr std::optional<RowKind> kRowKind<Norm> = RowKind::kNorm;
template <>
constexpr std::optional<RowKind> kRowKind<Softmax> = RowKind::kSoftmax;
template <>
constexpr std::optional<RowKind> kRowKind<Reduction> = RowKind::kReduction;
template <>
constexpr std::optional<RowKind> kRowKind<Rotary> = RowKind::kRotary;
template <>
constexpr std::optional<RowKind> kRowKind<Move> = RowKind::kMove;
template <>
constexpr std::optional<RowKind> kRowKind<Append> = RowKind::kAppend;
template <>
constexpr std::optional<RowKind> kRowKind<MergeSpans> = RowKind::kMergeSpans;
template <>
constexpr std::optional<RowKind> kRowKind<Register> = RowKind::kRegister;
template <>
constexpr std::optional<RowKind> kRowKind<GatherRows> = RowKind::kGatherRows;

// Of the largest row that a step keeps in shared memory.
template <class T>
int64_t floats_of(const T& step) {
  if constexpr (requires { step.n; }) return step.n;
  if constexpr (std::is_same_v<T, ToHalf>) return int64_t{step.parts} * step.k;
  if constexpr (std::is_same_v<T, Rotary>) return step.n_heads * step.head_dim;
  if constexpr (std::is_same_v<T, MergeSpans>) return int64_t{step.n_heads} * step.value_dim;
  if constexpr (std::is_same_v<T, Embed>) return step.weights.k;
  return 0;
}
}  // namespace

bool RowLowering::add(const Step& step) {
  return std::visit(
      [&]<class T>(const T& args) {
        if constexpr (!kRowKind<T>.has_value()) {
          return false;
        } else {
          static_assert(sizeof(T) <= sizeof(RowOp::step));
          add(*kRowKind<T>, args.rows, std::as_bytes(std::span(&args, 1)), row_uses(step), floats_of(args) * 4);
          return true;
        }
      },
      step);
}

// Blocks run ahead of each other, so no block may write what another may still read. Memory of a dead value may be reused for rows of
// another length.
bool RowLowering::meets_earlier(const std::vector<MemoryUse>& uses) const {
  if (program_.n_ops > 0 && program_.ops[program_.n_ops - 1].kind == RowKind::kMove) return true;  // which has read anything
  return std::ranges::any_of(uses, [&](const MemoryUse& use) {
    return std::ranges::any_of(uses_, [&](const MemoryUse& other) { return meets_other_rows(use, other, program_.rows.most); });
  });
}

void RowLowering::add(RowKind kind, const Rows& rows, std::span<const std::byte> step, const std::vector<MemoryUse>& uses,
                      int64_t result_bytes) {
  // A gathered row is another block's: what makes it is in a launch before.
  const bool same = is_same(rows, program_.rows), gathers = kind == RowKind::kGatherRows;
  if (program_.n_ops == kMostRowOps || !same || gathers || !list_.target().merges_rows || meets_earlier(uses)) end();
  program_.rows = rows;
  slot_bytes_ = std::max(slot_bytes_, result_bytes);
  uses_.insert(uses_.end(), uses.begin(), uses.end());
  RowOp& op = program_.ops[program_.n_ops++];
  op.kind = kind;
  std::memcpy(op.step, step.data(), step.size());
}

void RowLowering::end() {
  if (program_.n_ops == 0) return;
  const Target& target = list_.target();
  const int n_blocks = std::min(program_.rows.most, target.n_units * 4);
  constexpr int kOtherBytes = 20 << 10;  // that the kernel has besides
  const int64_t most = (target.shared_bytes - kOtherBytes) / kRowSlots / 64 * 64;
  program_.slot_bytes = static_cast<int32_t>(std::min(most, (slot_bytes_ + 63) / 64 * 64));
  const RowProgram program = program_;
  program_.n_ops = 0;
  slot_bytes_ = 0;
  uses_.clear();
  list_.add("rows_program", {n_blocks}, kRowThreads, kRowSlots * program.slot_bytes, program);
}

}  // namespace kvik::cuda

#include "backend/graph/feeds.h"

#include <fmt/format.h>
#include <functional>

#include "kvik/error.h"

namespace kvik::backend {
namespace {

using analysis::Port;
using analysis::Role;

[[noreturn]] void refuse(const Port& port, std::string_view why) {
  throw Error(Code::kUnsupported, fmt::format("input '{}' ({}) {}", port.name, analysis::role_name(port.role), why));
}

// Fills a tensor of the port's type, element by element.
Tensor fill(const Port& port, Dims dims, const std::function<double(int64_t)>& element) {
  Tensor tensor(port.dtype, std::move(dims));
  const auto write = [&](auto target) {
    for (size_t i = 0; i < target.size(); ++i) {
      using T = std::remove_reference_t<decltype(target[0])>;
      const double value = element(static_cast<int64_t>(i));
      if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
        target[i] = T(static_cast<float>(value));
      } else {
        target[i] = static_cast<T>(value);
      }
    }
  };
  switch (port.dtype) {
    case DType::kI64: write(tensor.mutable_data<int64_t>()); break;
    case DType::kI32: write(tensor.mutable_data<int32_t>()); break;
    case DType::kF32: write(tensor.mutable_data<float>()); break;
    case DType::kF64: write(tensor.mutable_data<double>()); break;
    case DType::kF16: write(tensor.mutable_data<Half>()); break;
    case DType::kBF16: write(tensor.mutable_data<BFloat16>()); break;
    case DType::kBool: write(tensor.mutable_data<bool>()); break;
    default: refuse(port, fmt::format("has the unsupported type {}", dtype_name(port.dtype)));
  }
  return tensor;
}

int64_t rank_of(const Port& port, int64_t usual) { return port.has_shape ? static_cast<int64_t>(port.dims.size()) : usual; }

// A scalar or a tensor of one element, as the port declares.
Tensor single(const Port& port, double value) {
  const int64_t rank = rank_of(port, 1);
  if (rank > 1) refuse(port, fmt::format("has {} axes; expected a single number", rank));
  return fill(port, rank == 0 ? Dims{} : Dims{1}, [&](int64_t) { return value; });
}

Tensor per_sequence(const Port& port, const StepShape& step, double value) {
  const int64_t rank = rank_of(port, 1);
  if (rank > 2) refuse(port, fmt::format("has {} axes; expected one number per sequence", rank));
  const bool one = port.has_shape && rank == 1 && port.dims[0].value == 1;
  Dims dims = rank == 0 ? Dims{} : Dims{one ? 1 : step.n_sequences};
  if (rank == 2) dims.push_back(1);  // [batch, 1]
  return fill(port, dims, [&](int64_t) { return value; });
}

// 2-D masks mark valid positions. 4-D masks mark the keys that each new row sees: itself and all before it.
Tensor attention_mask(const Port& port, const StepShape& step) {
  const int64_t rank = rank_of(port, 2);
  const bool fixed = port.has_shape && port.dims.back().value > 1;
  const int64_t n_valid = step.n_past + step.n_new;
  const int64_t n_keys = fixed ? port.dims.back().value : n_valid;
  if (n_valid > n_keys)
    throw Error(Code::kTooLarge, fmt::format("the context is full: the mask '{}' has room for {} positions", port.name, n_keys));
  if (rank == 1) return fill(port, {n_keys}, [&](int64_t i) { return i < n_valid ? 1.0 : 0.0; });
  if (rank == 2) return fill(port, {step.n_sequences, n_keys}, [&](int64_t i) { return i % n_keys < n_valid ? 1.0 : 0.0; });
  if (rank != 4) refuse(port, fmt::format("has {} axes; expected 2 or 4", rank));
  const bool additive = is_float(port.dtype);
  const double hidden = port.dtype == DType::kF16 ? -65504.0 : -3.4028234663852886e38;
  return fill(port, {step.n_sequences, 1, step.n_new, n_keys}, [&](int64_t i) {
    const bool visible = i % n_keys <= step.n_past + (i / n_keys) % step.n_new;
    return additive ? (visible ? 0.0 : hidden) : (visible ? 1.0 : 0.0);
  });
}

Tensor positions(const Port& port, const StepShape& step) {
  const int64_t rank = rank_of(port, port.role == Role::kCachePosition ? 1 : 2);
  const auto position = [&](int64_t i) { return static_cast<double>(step.n_past + i % step.n_new); };
  if (rank == 0) return single(port, position(0));
  if (rank == 1) return fill(port, {port.unclear_count && step.one_position ? 1 : step.n_new}, position);
  if (rank == 2) return fill(port, {step.n_sequences, step.n_new}, position);
  // One plane each for time, height and width; for text they are equal.
  if (rank == 3 && port.dims[0].value > 0) return fill(port, {port.dims[0].value, step.n_sequences, step.n_new}, position);
  refuse(port, fmt::format("has {} axes; expected at most 3", rank));
}

}  // namespace

bool is_shape_role(Role role) {
  switch (role) {
    case Role::kAttentionMask:
    case Role::kPositionIds:
    case Role::kTokenTypeIds:
    case Role::kUseCacheBranch:
    case Role::kNumLogitsToKeep:
    case Role::kCachePosition:
    case Role::kWriteIndices:
    case Role::kKvLength:
    case Role::kOther: return true;
    default: return false;
  }
}

Tensor shape_feed(const Port& port, const StepShape& step) {
  switch (port.role) {
    case Role::kAttentionMask: return attention_mask(port, step);
    case Role::kPositionIds:
    case Role::kCachePosition: return positions(port, step);
    case Role::kTokenTypeIds: return fill(port, {step.n_sequences, step.n_new}, [](int64_t) { return 0.0; });
    case Role::kUseCacheBranch: return single(port, step.n_past > 0 ? 1.0 : 0.0);
    case Role::kNumLogitsToKeep: return single(port, step.only_last_logits ? 1.0 : 0.0);
    case Role::kWriteIndices: return per_sequence(port, step, static_cast<double>(step.n_past));
    case Role::kKvLength: {
      const int64_t length = port.means_past ? step.n_past : step.n_past + step.n_new;
      return per_sequence(port, step, static_cast<double>(port.less_one ? length - 1 : length));
    }
    case Role::kOther: return single(port, 0.0);
    default: refuse(port, "has an unknown role; name it in kvik.json");
  }
}

Tensor token_feed(const Port& port, std::span<const TokenId> tokens, const StepShape& step) {
  const Dims dims = rank_of(port, 2) == 1 ? Dims{step.n_sequences * step.n_new} : Dims{step.n_sequences, step.n_new};
  return fill(port, dims, [&](int64_t i) { return static_cast<double>(tokens[static_cast<size_t>(i)]); });
}

}  // namespace kvik::backend

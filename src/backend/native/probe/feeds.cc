#include "backend/graph/feeds.h"

#include <algorithm>
#include <fmt/format.h>
#include <random>

#include "backend/graph/convert.h"
#include "backend/native/probe/probe.h"

namespace kvik::native {
namespace {

using analysis::Port;
using analysis::Role;

Tensor positions(const Sizes& sizes) {
  Tensor result(DType::kI64, {sizes.batch, sizes.fresh});
  const auto target = result.mutable_data<int64_t>();
  for (size_t i = 0; i < target.size(); ++i) target[i] = sizes.past + static_cast<int64_t>(i) % sizes.fresh;
  return result;
}

// As the port's type, every element the same.
Expected<Tensor> filled(DType dtype, Dims dims, int64_t value) {
  Tensor result(dtype, std::move(dims));
  const auto fill = [&](auto target) {
    using T = std::remove_reference_t<decltype(target[0])>;
    std::fill(target.begin(), target.end(), T(static_cast<float>(value)));
  };
  switch (dtype) {
    case DType::kI64: fill(result.mutable_data<int64_t>()); break;
    case DType::kI32: fill(result.mutable_data<int32_t>()); break;
    case DType::kF32: fill(result.mutable_data<float>()); break;
    case DType::kF16: fill(result.mutable_data<Half>()); break;
    case DType::kBF16: fill(result.mutable_data<BFloat16>()); break;
    case DType::kF64: fill(result.mutable_data<double>()); break;
    case DType::kBool: fill(result.mutable_data<bool>()); break;
    default: return refuse(fmt::format("a mask or length of type {} is not supported", dtype_name(dtype)));
  }
  return result;
}

// All positions are valid. A mask over pairs is a bias on scores if it is float, else it marks visible positions.
Expected<Tensor> open_mask(const Port& port, int64_t batch, int64_t n_rows, int64_t n_keys) {
  const size_t rank = port.has_shape ? port.dims.size() : 2;
  if (rank == 1) return filled(port.dtype, {n_keys}, 1);
  if (rank == 2) return filled(port.dtype, {batch, n_keys}, 1);
  if (rank > 4) return refuse(fmt::format("the mask '{}' has {} axes; at most 4 were expected", port.name, rank));
  Dims dims = {batch, n_rows, n_keys};
  if (rank == 4) dims.insert(dims.begin() + 1, 1);
  for (size_t i = 0; i < rank; ++i) {
    if (port.dims[i].value == 1) dims[i] = 1;
  }
  return filled(port.dtype, dims, is_float(port.dtype) ? 0 : 1);
}

Expected<Tensor> feed_of(const FeedForm& form, const Port& port, const Sizes& sizes) {
  if (port.role == Role::kUseCacheBranch) {
    return filled(port.dtype, port.has_shape && port.dims.empty() ? Dims{} : Dims{1}, form.has_past ? 1 : 0);
  }
  if (port.role == Role::kEncoderAttentionMask) return open_mask(port, sizes.batch, 1, sizes.source);
  if (port.role == Role::kAttentionMask && form.encodes) return open_mask(port, sizes.batch, sizes.fresh, sizes.fresh);
  if (!backend::is_shape_role(port.role)) {
    return refuse(fmt::format("'{}' ({}) is unknown until a row is computed", port.name, analysis::role_name(port.role)));
  }
  const backend::StepShape step = {
      .n_sequences = sizes.batch, .n_past = sizes.past, .n_new = sizes.fresh, .only_last_logits = false, .one_position = form.one_position};
  const Evaluated<Tensor> fed = evaluate([&] { return backend::shape_feed(port, step); });
  return fed ? Expected<Tensor>(*fed) : refuse(fed.failure);
}

}  // namespace

Expected<Tensor> auxiliary_feed(const FeedForm& form, const Port* port, const Sizes& sizes) {
  if (port == nullptr) return positions(sizes);
  KVIK_TRY(Tensor fed, feed_of(form, *port, sizes));
  return as_f32(std::move(fed));
}

Tensor ordinary_tokens(const FlatGraph& flat, const Sizes& sizes, uint32_t seed) {
  return ordinary_tokens(flat.file->vocab.value_or(1), sizes, seed);
}

Tensor ordinary_tokens(int64_t vocab, const Sizes& sizes, uint32_t seed) {
  vocab = std::max<int64_t>(1, vocab);
  const int64_t first = vocab / 4, count = std::max<int64_t>(1, vocab / 2);
  std::mt19937 random(seed);
  Tensor result(DType::kI64, {sizes.batch, sizes.fresh});
  for (int64_t& token : result.mutable_data<int64_t>()) token = first + static_cast<int64_t>(random()) % count;
  return result;
}

Tensor as_declared(const Port& port, const Tensor& tokens) {
  const Tensor shaped = port.has_shape && port.dims.size() == 1 ? tokens.reshaped({tokens.size()}) : tokens;
  return port.dtype == DType::kI32 ? backend::cast_integer(shaped, DType::kI32) : shaped;
}

}  // namespace kvik::native

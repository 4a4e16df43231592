#include <fmt/format.h>
#include <limits>

#include "backend/native/attention/operator_definition.h"
#include "backend/native/probe/arrange.h"

namespace kvik::native {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// A mask as [batch, heads, rows, keys], each of them or 1.
struct Mask {
  Dims dims;
  std::vector<float> added;

  float at(int64_t b, int64_t h, int64_t q, int64_t k) const {
    const auto index = [&](size_t axis, int64_t i) { return dims[axis] == 1 ? 0 : i; };
    return added[static_cast<size_t>(((index(0, b) * dims[1] + index(1, h)) * dims[2] + index(2, q)) * dims[3] + k)];
  }
};

// Nullopt if it does not fit the heads and rows.
std::optional<Mask> mask_of(const Tensor& tensor, const Scores& scores, int64_t n_rows) {
  Mask mask;
  mask.dims = tensor.dims();
  const bool fits = !mask.dims.empty() && mask.dims.size() <= 4;
  if (fits) mask.dims.insert(mask.dims.begin(), 4 - mask.dims.size(), 1);
  const Dims wanted = {scores.batch, scores.heads, n_rows};
  for (size_t axis = 0; axis < 3; ++axis) {
    if (!fits || (mask.dims[axis] != 1 && mask.dims[axis] != wanted[axis])) return std::nullopt;
  }
  const Tensor floats = to_floats(tensor);
  mask.added.assign(floats.data<float>().begin(), floats.data<float>().end());
  if (tensor.dtype() != DType::kBool) return mask;
  for (float& x : mask.added) x = x != 0 ? 0.0f : kMasked;
  return mask;
}

}  // namespace

Expected<Evaluated<Scores>> OperatorScores::with_mask(const Sizes& sizes, int64_t first, Scores scores) {
  const onnx::ValueId value = definition_.input(definition_.mask);
  if (value == onnx::kNoValue) return evaluated(std::move(scores));
  KVIK_TRY(const Evaluated<Tensor> found, context_.probes.at(sizes).try_get(value));
  if (!found) return Evaluated<Scores>{{}, found.failure};
  const std::optional<Mask> fitting = mask_of(*found, scores, sizes.fresh);
  if (!fitting)
    return Evaluated<Scores>{{},
                             fmt::format("its mask has shape {}, which does not fit {} heads and {} rows", kvik::to_string(found->dims()),
                                         scores.heads, sizes.fresh)};
  const Mask& mask = *fitting;
  const int64_t width = mask.dims[3];
  for (int64_t b = 0; b < scores.batch; ++b) {
    for (int64_t q = 0; q < scores.rows; ++q) {
      for (int64_t k = 0; k < scores.keys; ++k) {
        const bool beyond = k >= width;
        for (int64_t h = 0; h < scores.heads; ++h) {
          float& score = scores.at(b, q, k, h);
          if (width == 1 && !definition_.mask_may_be_short) {
            score += mask.at(b, h, first + q, 0);
          } else {
            score = beyond ? kMasked : score + mask.at(b, h, first + q, k);
          }
        }
      }
    }
  }
  return evaluated(std::move(scores));
}

void OperatorScores::hide_by_position(const Sizes& sizes, int64_t first_row, Scores& scores) {
  if (!definition_.causal && definition_.left < 0 && definition_.right < 0) return;
  int64_t first = definition_.by_position || definition_.appends() ? sizes.past : 0;
  if (definition_.valid_keys >= 0) first = sizes.total() - sizes.fresh;
  for (int64_t b = 0; b < scores.batch; ++b) {
    for (int64_t q = 0; q < scores.rows; ++q) {
      const int64_t position = first + first_row + q;
      for (int64_t k = 0; k < scores.keys; ++k) {
        const bool seen = !(definition_.causal && k > position) && !(definition_.left >= 0 && k < position - definition_.left) &&
                          !(definition_.right >= 0 && k > position + definition_.right);
        if (seen) continue;
        for (int64_t h = 0; h < scores.heads; ++h) scores.at(b, q, k, h) = kMasked;
      }
    }
  }
}

Expected<Evaluated<Scores>> OperatorScores::scores_of(const Sizes& sizes, int64_t first, int64_t n, std::span<const float> x) {
  Scores scores;
  scores.batch = sizes.batch;
  scores.rows = n;
  scores.keys = n_keys(sizes);
  scores.heads = definition_.n_heads;
  scores.data.resize(static_cast<size_t>(scores.batch * scores.rows * scores.keys * scores.heads));
  for (size_t i = 0; i < scores.data.size(); ++i) {
    const size_t pair = i / static_cast<size_t>(scores.heads) % (static_cast<size_t>(scores.rows * scores.keys));
    scores.data[i] = definition_.function(x.size() == 1 ? x[0] : x[pair]);
  }
  KVIK_TRY(Evaluated<Scores> masked, with_mask(sizes, first, std::move(scores)));
  if (masked) hide_by_position(sizes, first, *masked);
  return masked;
}

Expected<Evaluated<Scores>> OperatorScores::softmax_input_of_row(int64_t total, int64_t position, std::span<const float> x) {
  KVIK_TRY(const Sizes sizes, sizes_at(context_.labels, {.past = total - 1}));
  return scores_of(sizes, position - sizes.past, 1, x);
}

}  // namespace kvik::native

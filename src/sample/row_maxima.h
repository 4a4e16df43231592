#pragma once

#include <span>
#include <vector>

#include "base/token_logit.h"

namespace kvik::sample {

// The largest entry of each block of a row, found in one pass: few blocks have an entry among the largest of the row. NaN counts as -inf.
class RowMaxima {
 public:
  // `row` must outlive what follows.
  void find(std::span<const float> row);

  float largest() const { return largest_; }
  // A value that at least n entries of the row reach: the n-th largest of the maxima, or -inf if there are not so many.
  float reached_by(size_t n);

  // fn(entry) for each entry that reaches a value, in the order of the ids. reaches(float) must hold for all entries above one for which it
  // holds.
  template <class Reaches, class Fn>
  void each(Reaches reaches, Fn fn) const {
    for (size_t block = 0; block < maxima_.size(); ++block) {
      if (!reaches(maxima_[block])) continue;
      const size_t first = block * kBlock, end = first + kBlock < row_.size() ? first + kBlock : row_.size();
      for (size_t i = first; i < end; ++i)
        if (reaches(row_[i])) fn(TokenLogit{row_[i], static_cast<TokenId>(i)});
    }
  }

 private:
  static constexpr size_t kBlock = 64;
  std::span<const float> row_;
  std::vector<float> maxima_, ranked_;
  float largest_ = 0;
};

}  // namespace kvik::sample

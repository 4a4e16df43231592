#pragma once

#include <cstring>

#include "kernels/device/steps.h"

// What each step computes, on host memory: addresses are pointers.
namespace kvik::testing_support {

template <class T = std::byte>
T* at(device::Address address, int64_t n_bytes = 0) {
  return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(static_cast<uintptr_t>(address)) + n_bytes);
}

struct RowAt {
  const device::Row& row;
  int64_t index;
};

template <class T = float>
T* row_of(const device::View& view, const RowAt& r) {
  if (!view.by_position) return at<T>(view.base, r.index * view.stride);
  const bool beyond = r.row.beyond != 0 && view.beyond != device::Address::kNone;
  return at<T>(beyond ? view.beyond : view.base, r.row.position * view.stride);
}

inline bool is_there(const device::View& view) { return view.base != device::Address::kNone; }

// fn(RowAt) for every row that is selected.
template <class Fn>
void each_row(const device::Rows& rows, const device::Selection& selection, Fn fn) {
  const int32_t n = *at<int32_t>(rows.n_rows);
  for (int64_t i = 0; i < n && i < rows.most; ++i) {
    if (selection.base != device::Address::kNone && *at<int32_t>(selection.base, i * selection.stride) == 0) continue;
    fn(RowAt{at<device::Row>(rows.rows)[i], i});
  }
}

void execute(const device::Begin& step);
void execute(const device::Embed& step);
void execute(const device::ToHalf& step);
void execute(const device::Matrix& step);
void execute(const device::Elementwise& step);
void execute(const device::Norm& step);
void execute(const device::Softmax& step);
void execute(const device::Reduction& step);
void execute(const device::Rotary& step);
void execute(const device::Move& step);
void execute(const device::Append& step);
void execute(const device::Attend& step);
void execute(const device::MergeSpans& step);
void execute(const device::Register& step);
void execute(const device::GatherRows& step);
void execute(const device::Choose& step);
void execute(const device::CopyBytes& step);

// f32 as f16 with a power of two, in one plane or two, each of `padded` elements. Returns what undoes the power.
float to_half(const float* x, int64_t n, int planes, int64_t padded, uint16_t* out);

}  // namespace kvik::testing_support

#include <algorithm>
#include <numeric>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/common.h"
#include "onnx/eval/ops/dispatch.h"
#include "onnx/eval/ops/elements.h"

namespace kvik::onnx {
namespace {

// Slices of an axis, compared element by element.
template <class T>
class Slices {
 public:
  Slices(const Tensor& x, const AxisSplit& split) : data_(x.data<T>()), split_(split) {}

  int compare(int64_t a, int64_t b) const {
    for (int64_t i = 0; i < split_.outer * split_.inner; ++i) {
      const T& left = at(a, i);
      const T& right = at(b, i);
      if (left < right) return -1;
      if (right < left) return 1;
    }
    return 0;
  }

 private:
  const T& at(int64_t slice, int64_t i) const {
    return data_[static_cast<size_t>((i / split_.inner * split_.n + slice) * split_.inner + i % split_.inner)];
  }

  std::span<const T> data_;
  AxisSplit split_;
};

struct Group {
  int64_t first;  // index of its first slice
  int64_t count;
};

// The groups of equal slices in order, and the group of each slice.
struct Groups {
  std::vector<Group> groups;
  std::vector<int64_t> group_of;
};

template <class T>
Groups group_slices(const Tensor& x, const AxisSplit& split, bool sorted) {
  const Slices<T> slices(x, split);
  std::vector<int64_t> order(static_cast<size_t>(split.n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return slices.compare(a, b) < 0; });
  Groups found = {{}, std::vector<int64_t>(order.size())};
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || slices.compare(order[i - 1], order[i]) != 0) found.groups.push_back({order[i], 0});
    ++found.groups.back().count;
    found.group_of[static_cast<size_t>(order[i])] = static_cast<int64_t>(found.groups.size()) - 1;
  }
  if (sorted) return found;
  std::vector<size_t> by_first(found.groups.size());
  std::iota(by_first.begin(), by_first.end(), 0);
  std::sort(by_first.begin(), by_first.end(), [&](size_t a, size_t b) { return found.groups[a].first < found.groups[b].first; });
  std::vector<Group> groups;
  std::vector<int64_t> place(by_first.size());
  for (const size_t old : by_first) {
    place[old] = static_cast<int64_t>(groups.size());
    groups.push_back(found.groups[old]);
  }
  for (int64_t& group : found.group_of) group = place[static_cast<size_t>(group)];
  found.groups = std::move(groups);
  return found;
}

Groups groups_of(const Tensor& x, const AxisSplit& split, bool sorted) {
  if (x.dtype() == DType::kString) return group_slices<std::string>(x, split, sorted);
  if (x.dtype() == DType::kBool) return group_slices<bool>(x, split, sorted);
  const Tensor wide = widened(x);
  return visit_numeric(wide.dtype(), [&]<class T>(Type<T>) { return group_slices<T>(wide, split, sorted); });
}

Tensors unique(const KernelCall& call) {
  const Tensor flat = call.input(0).reshaped({call.input(0).size()});
  const Tensor& x = call.node.has("axis") ? call.input(0) : flat;
  const int axis = normal_axis(call.node.int_or("axis", 0), x.rank());
  require(x.size() > 0 || x.rank() == 1, "an empty tensor of shape {} has no slices to compare", to_string(x.dims()));
  const Groups found = groups_of(x, split_at(x.dims(), axis), call.node.int_or("sorted", 1) != 0);
  Dims dims = x.dims();
  dims[static_cast<size_t>(axis)] = static_cast<int64_t>(found.groups.size());
  const auto source = [&](size_t a, int64_t i) { return static_cast<int>(a) == axis ? found.groups[static_cast<size_t>(i)].first : i; };
  std::vector<int64_t> firsts;
  std::vector<int64_t> counts;
  for (const Group& group : found.groups) {
    firsts.push_back(group.first);
    counts.push_back(group.count);
  }
  const auto n = static_cast<int64_t>(found.groups.size());
  return {remapped(x, dims, source), Tensor::of({n}, firsts), Tensor::of({static_cast<int64_t>(found.group_of.size())}, found.group_of),
          Tensor::of({n}, counts)};
}

}  // namespace

void add_unique(KernelTable& table) { table.add("Unique", unique); }

}  // namespace kvik::onnx

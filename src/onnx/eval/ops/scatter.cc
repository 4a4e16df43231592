#include <algorithm>
#include <cmath>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/common.h"
#include "onnx/eval/ops/dispatch.h"
#include "onnx/eval/ops/elements.h"
#include "onnx/eval/ops/indices.h"

namespace kvik::onnx {
namespace {

// How an update is combined with the existing element.
class Merge {
 public:
  Merge(Tensor& target, std::string_view reduction) : target_(target), reduction_(reduction), writer_(target) {
    require(reduction == "none" || reduction == "add" || reduction == "mul" || reduction == "max" || reduction == "min",
            "reduction '{}' is unknown", reduction);
  }

  void run(const Tensor& updates, int64_t from, int64_t to, int64_t n) {
    if (reduction_ == "none") return writer_.copy(updates, from, to, n);
    visit_numeric(target_.dtype(), [&]<class T>(Type<T>) {
      const auto source = updates.data<T>();
      const auto target = target_.mutable_data<T>();
      for (int64_t i = 0; i < n; ++i) {
        T& element = target[static_cast<size_t>(to + i)];
        element = merged<T>(element, source[static_cast<size_t>(from + i)]);
      }
    });
  }

 private:
  template <class T>
  T merged(T old, T update) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (reduction_ == "add") return old + update;
      if (reduction_ == "mul") return old * update;
      if (std::isnan(old) || std::isnan(update)) return old + update;
    } else {
      if (reduction_ == "add") return static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(update));
      if (reduction_ == "mul") return static_cast<T>(static_cast<uint64_t>(old) * static_cast<uint64_t>(update));
    }
    return reduction_ == "max" ? std::max(old, update) : std::min(old, update);
  }

  Tensor& target_;
  std::string_view reduction_;
  ElementWriter writer_;
};

Tensors scatter_elements(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const Tensor& places = call.input(1);
  const Tensor& updates = call.input(2);
  require_same_dtype(x, updates);
  const int axis = normal_axis(call.node.int_or("axis", 0), x.rank());
  require_inside(places.dims(), x.dims(), axis);
  require(updates.dims() == places.dims(), "updates of shape {} were given for indices of shape {}", to_string(updates.dims()),
          to_string(places.dims()));
  const std::vector<int64_t> indices = indices_into(places, x.dim(axis));
  Tensor result = x;
  Merge merge(result, call.node.string_or("reduction", "none"));
  int64_t from = 0;
  for (AlongAxis walk(places.dims(), x.dims(), axis); walk.more(); walk.next(), ++from) {
    merge.run(updates, from, walk.offset(indices[static_cast<size_t>(from)]), 1);
  }
  return {result};
}

Tensors scatter_nd(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const Tensor& places = call.input(1);
  const Tensor& updates = call.input(2);
  require_same_dtype(x, updates);
  const Tuples tuples(places, x.dims(), 0);
  Dims expected(places.dims().begin(), places.dims().end() - 1);
  expected.insert(expected.end(), x.dims().begin() + tuples.width(), x.dims().end());
  require(updates.dims() == expected, "found updates of shape {}; expected {}", to_string(updates.dims()), to_string(expected));
  Tensor result = x;
  Merge merge(result, call.node.string_or("reduction", "none"));
  for (int64_t i = 0; i < tuples.count(); ++i) merge.run(updates, i * tuples.run(), tuples.offset(i), tuples.run());
  return {result};
}

}  // namespace

void add_scatter(KernelTable& table) {
  table.add("Scatter", in_f32<scatter_elements>);
  table.add("ScatterElements", in_f32<scatter_elements>);
  table.add("ScatterND", in_f32<scatter_nd>);
}

}  // namespace kvik::onnx

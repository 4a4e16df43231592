#include "kernels/cuda/row_uses.h"

namespace kvik::cuda {
namespace {

using namespace device;

class Uses {
 public:
  void reads(const View& view, int64_t n, int element_bytes = 4) { add(view, n, element_bytes, false); }
  void writes(const View& view, int64_t n, int element_bytes = 4) { add(view, n, element_bytes, true); }
  std::vector<MemoryUse> take() { return std::move(uses_); }

 private:
  void add(const View& view, int64_t n, int element_bytes, bool writes) {
    if (view.base != Address::kNone && !view.by_position) uses_.push_back({view, n * element_bytes, writes, element_bytes});
  }
  std::vector<MemoryUse> uses_;
};

int64_t operand_size(const Elementwise& step, size_t i) {
  switch (step.spread[i]) {
    case Spread::kAll: return step.n;
    case Spread::kEvery: return step.n / step.groups;
    case Spread::kPerGroup: return step.groups;
    default: return 1;
  }
}

void add(const Embed& step, Uses& uses) {
  uses.reads(step.token, 1, step.narrow ? 4 : 8);
  uses.writes(step.out, step.weights.k);
}
void add(const ToHalf& step, Uses& uses) {
  uses.reads(step.x, int64_t{step.parts} * step.k);
  uses.writes(step.out, int64_t{step.parts} * step.planes * step.padded_k, 2);
  uses.writes(step.scale, step.parts);
}
void add(const Elementwise& step, Uses& uses) {
  const size_t n = step.kind == Elementwise::Kind::kWhere                                             ? 3
                   : step.kind == Elementwise::Kind::kBinary || step.kind == Elementwise::Kind::kGate ? 2
                                                                                                      : 1;
  for (size_t i = 0; i < n; ++i) uses.reads(step.in[i], operand_size(step, i));
  uses.writes(step.out, step.n);
}
void add(const Norm& step, Uses& uses) {
  uses.reads(step.x, step.n);
  uses.reads(step.weight, step.n / step.groups);
  uses.reads(step.bias, step.n / step.groups);
  uses.writes(step.out, step.n);
}
void add(const Softmax& step, Uses& uses) {
  uses.reads(step.x, step.n);
  uses.writes(step.out, step.n);
}
void add(const Reduction& step, Uses& uses) {
  uses.reads(step.x, step.n);
  uses.writes(step.out, step.groups);
}
void add(const Rotary& step, Uses& uses) {
  uses.reads(step.x, step.n_heads * step.head_dim);
  uses.writes(step.out, step.n_heads * step.head_dim);
}
void add(const Move& step, Uses& uses) { uses.writes(step.out, step.out.stride, 1); }
void add(const Append& step, Uses& uses) {
  uses.reads(step.k, int64_t{step.layout.n_heads} * step.layout.key_dim);
  uses.reads(step.v, int64_t{step.layout.n_heads} * step.layout.value_dim);
}
void add(const MergeSpans& step, Uses& uses) {
  const int64_t n = int64_t{step.n_heads} * step.parts.n_parts * (2 + step.value_dim);
  uses.reads({step.parts.parts, n * 4}, n);
  uses.writes(step.out, int64_t{step.n_heads} * step.value_dim);
}
void add(const Register& step, Uses& uses) {
  if (step.write)
    uses.reads(step.value, step.n_bytes, 1);
  else
    uses.writes(step.value, step.n_bytes, 1);
}
void add(const GatherRows& step, Uses& uses) { uses.writes(step.to, step.n_bytes, 1); }
template <class T>
void add(const T&, Uses&) {}

}  // namespace

std::vector<MemoryUse> row_uses(const Step& step) {
  Uses uses;
  std::visit([&](const auto& args) { add(args, uses); }, step);
  return uses.take();
}

bool meets_other_elements(const MemoryUse& a, const MemoryUse& b, int n_rows) {
  if (!a.writes && !b.writes) return false;
  if (a.element_bytes == b.element_bytes && a.row_bytes == b.row_bytes && is_same(a.view, b.view)) return false;
  if (!range_of(a.view, n_rows, a.row_bytes).overlaps(range_of(b.view, n_rows, b.row_bytes))) return false;
  const int64_t stride = a.view.stride;
  if (stride <= 0 || b.view.stride != stride) return true;
  const int64_t apart = static_cast<int64_t>(b.view.base) - static_cast<int64_t>(a.view.base);
  const int64_t behind = (apart % stride + stride) % stride;  // of a's row, where b's begins
  return behind < a.row_bytes || behind + b.row_bytes > stride;
}

bool meets_other_rows(const MemoryUse& a, const MemoryUse& b, int n_rows) {
  if (!a.writes && !b.writes) return false;
  if (!range_of(a.view, n_rows, a.row_bytes).overlaps(range_of(b.view, n_rows, b.row_bytes))) return false;
  const int64_t stride = a.view.stride, apart = static_cast<int64_t>(b.view.base) - static_cast<int64_t>(a.view.base);
  const bool in_its_row = stride == b.view.stride && apart + b.row_bytes <= stride && a.row_bytes - apart <= stride;
  return n_rows > 1 && !in_its_row;
}

}  // namespace kvik::cuda

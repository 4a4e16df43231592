#include <algorithm>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/cast.h"
#include "onnx/eval/ops/common.h"
#include "onnx/eval/ops/recurrent_activation.h"

// RNN, GRU and LSTM, in double. Names follow ONNX: X, W, R, B, H, C.
namespace kvik::onnx {
namespace {

using Vector = std::vector<double>;

struct Sizes {
  int64_t steps, batch, input, hidden, directions;
  int64_t gates;  // 1 for RNN, 3 for GRU, 4 for LSTM
};

struct Options {
  bool batch_first;          // layout 1
  bool reverse_first;        // direction "reverse"
  bool linear_before_reset;  // GRU
  bool input_forget;         // LSTM
  double clip;               // 0: none
  std::vector<Activation> activations;
};

// The weights of one direction.
struct Weights {
  const double* w;  // [gates * hidden, input]
  const double* r;  // [gates * hidden, hidden]
  const double* b;  // [2 * gates * hidden]
  const double* p;  // [3 * hidden], peepholes of LSTM
};

double dot(const double* a, const double* b, int64_t n) {
  double total = 0;
  for (int64_t i = 0; i < n; ++i) total += a[i] * b[i];
  return total;
}

struct Cell {
  const Sizes& sizes;
  const Options& options;
  const Weights& weights;
  const Activation* f;  // of the direction

  double clipped(double x) const { return options.clip > 0 ? std::clamp(x, -options.clip, options.clip) : x; }
  // Row `row` of W x + its bias, and of R h + its bias.
  double from_input(int64_t row, const double* x) const { return dot(weights.w + row * sizes.input, x, sizes.input) + weights.b[row]; }
  double from_state(int64_t row, const double* h) const {
    return dot(weights.r + row * sizes.hidden, h, sizes.hidden) + weights.b[sizes.gates * sizes.hidden + row];
  }
  double gate(int64_t row, const double* x, const double* h) const { return from_input(row, x) + from_state(row, h); }

  void rnn(const double* x, Vector& h) const;
  void gru(const double* x, Vector& h) const;
  void lstm(const double* x, Vector& h, Vector& c) const;
};

void Cell::rnn(const double* x, Vector& h) const {
  Vector next(h.size());
  for (size_t i = 0; i < h.size(); ++i) next[i] = f[0](clipped(gate(static_cast<int64_t>(i), x, h.data())));
  h = std::move(next);
}

void Cell::gru(const double* x, Vector& h) const {
  const int64_t n = sizes.hidden;
  Vector z(h.size());
  Vector r(h.size());
  Vector reset(h.size());
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    z[at] = f[0](clipped(gate(i, x, h.data())));
    r[at] = f[0](clipped(gate(n + i, x, h.data())));
    reset[at] = r[at] * h[at];
  }
  Vector next(h.size());
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t row = 2 * n + i;
    const double state = options.linear_before_reset ? r[at] * from_state(row, h.data()) : from_state(row, reset.data());
    const double candidate = f[1](clipped(from_input(row, x) + state));
    next[at] = (1 - z[at]) * candidate + z[at] * h[at];
  }
  h = std::move(next);
}

void Cell::lstm(const double* x, Vector& h, Vector& c) const {
  const int64_t n = sizes.hidden;
  Vector next(h.size());
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    const double* const p = weights.p;
    const double in = f[0](clipped(gate(i, x, h.data()) + p[i] * c[at]));
    const double forget = options.input_forget ? 1 - in : f[0](clipped(gate(2 * n + i, x, h.data()) + p[2 * n + i] * c[at]));
    const double candidate = f[1](clipped(gate(3 * n + i, x, h.data())));
    c[at] = forget * c[at] + in * candidate;
    const double out = f[0](clipped(gate(n + i, x, h.data()) + p[n + i] * c[at]));
    next[at] = out * f[2](c[at]);
  }
  h = std::move(next);
}

Tensor require_shape(const Tensor& x, const Dims& dims, std::string_view what) {
  require(x.dims() == dims, "{} has shape {}; expected {}", what, to_string(x.dims()), to_string(dims));
  return x;
}

Vector values_or_zeros(const KernelCall& call, size_t i, const Dims& dims, std::string_view what) {
  if (!call.has(i)) return Vector(static_cast<size_t>(element_count(dims)), 0.0);
  return as_doubles(require_shape(call.input(i), dims, what));
}

Sizes sizes_of(const KernelCall& call, int64_t gates, bool batch_first) {
  const Tensor& x = call.input(0);
  const Tensor& r = call.input(2);
  require_rank(x, 3, "X");
  require_rank(r, 3, "R");
  const Sizes sizes = {x.dim(batch_first ? 1 : 0), x.dim(batch_first ? 0 : 1), x.dim(2), r.dim(2), r.dim(0), gates};
  const std::string_view direction = call.node.string_or("direction", "forward");
  require(direction == "forward" || direction == "reverse" || direction == "bidirectional", "direction '{}' is unknown", direction);
  require(sizes.directions == (direction == "bidirectional" ? 2 : 1), "R has {} directions, but the direction is '{}'", sizes.directions,
          direction);
  require_shape(call.input(1), {sizes.directions, gates * sizes.hidden, sizes.input}, "W");
  require_shape(r, {sizes.directions, gates * sizes.hidden, sizes.hidden}, "R");
  return sizes;
}

std::vector<int64_t> lengths_of(const KernelCall& call, const Sizes& sizes) {
  if (!call.has(4)) return std::vector<int64_t>(static_cast<size_t>(sizes.batch), sizes.steps);
  std::vector<int64_t> lengths = as_ints(require_shape(call.input(4), {sizes.batch}, "sequence_lens"));
  for (const int64_t n : lengths) require(n >= 0 && n <= sizes.steps, "a sequence of {} does not fit {} steps", n, sizes.steps);
  return lengths;
}

// Offset of (a, b) in [first, second, inner], where layout 1 swaps the first two axes.
int64_t offset(int64_t a, int64_t b, const Dims& sizes, bool swapped) { return (swapped ? b * sizes[0] + a : a * sizes[1] + b) * sizes[2]; }

class Recurrence {
 public:
  Recurrence(const KernelCall& call, Sizes sizes, Options options)
      : call_(call),
        sizes_(sizes),
        options_(std::move(options)),
        x_(as_doubles(call.input(0))),
        w_(as_doubles(call.input(1))),
        r_(as_doubles(call.input(2))) {
    const Dims states =
        options_.batch_first ? Dims{sizes.batch, sizes.directions, sizes.hidden} : Dims{sizes.directions, sizes.batch, sizes.hidden};
    b_ = values_or_zeros(call, 3, {sizes.directions, 2 * sizes.gates * sizes.hidden}, "B");
    h_ = values_or_zeros(call, 5, states, "initial_h");
    if (sizes.gates != 4) return;
    c_ = values_or_zeros(call, 6, states, "initial_c");
    p_ = values_or_zeros(call, 7, {sizes.directions, 3 * sizes.hidden}, "P");
  }

  Tensors run() {
    const Sizes& s = sizes_;
    call_.work.take({s.steps, s.directions, s.batch, s.hidden, s.gates, s.input + s.hidden});
    const Dims all = options_.batch_first ? Dims{s.batch, s.steps, s.directions, s.hidden} : Dims{s.steps, s.directions, s.batch, s.hidden};
    const Dims states = options_.batch_first ? Dims{s.batch, s.directions, s.hidden} : Dims{s.directions, s.batch, s.hidden};
    y_.assign(static_cast<size_t>(new_tensor(DType::kF64, all).size()), 0.0);
    const std::vector<int64_t> lengths = lengths_of(call_, s);
    for (int64_t d = 0; d < s.directions; ++d) {
      for (int64_t b = 0; b < s.batch; ++b) run_sequence(d, b, lengths[static_cast<size_t>(b)]);
    }
    const DType dtype = call_.input(0).dtype();
    Tensors results = {cast(Tensor::of(all, y_), dtype), cast(Tensor::of(states, h_), dtype)};
    if (s.gates == 4) results.push_back(cast(Tensor::of(states, c_), dtype));
    return results;
  }

 private:
  void run_sequence(int64_t d, int64_t b, int64_t length) {
    const Sizes& s = sizes_;
    const bool backwards = options_.reverse_first || d == 1;
    const int64_t state = offset(d, b, {s.directions, s.batch, s.hidden}, options_.batch_first);
    const int64_t rows = s.gates * s.hidden;
    const Weights weights = {w_.data() + d * rows * s.input, r_.data() + d * rows * s.hidden, b_.data() + d * 2 * rows,
                             p_.data() + d * 3 * s.hidden};
    const size_t n_functions = options_.activations.size() / static_cast<size_t>(s.directions);
    const Cell cell = {s, options_, weights, options_.activations.data() + static_cast<size_t>(d) * n_functions};
    Vector h(h_.begin() + state, h_.begin() + state + s.hidden);
    Vector c = s.gates == 4 ? Vector(c_.begin() + state, c_.begin() + state + s.hidden) : Vector();
    for (int64_t i = 0; i < length; ++i) {
      const int64_t t = backwards ? length - 1 - i : i;
      const double* const x = x_.data() + offset(t, b, {s.steps, s.batch, s.input}, options_.batch_first);
      if (s.gates == 1) cell.rnn(x, h);
      if (s.gates == 3) cell.gru(x, h);
      if (s.gates == 4) cell.lstm(x, h, c);
      const int64_t to =
          options_.batch_first ? ((b * s.steps + t) * s.directions + d) * s.hidden : ((t * s.directions + d) * s.batch + b) * s.hidden;
      std::copy(h.begin(), h.end(), y_.begin() + to);
    }
    std::copy(h.begin(), h.end(), h_.begin() + state);
    std::copy(c.begin(), c.end(), c_.begin() + (c.empty() ? 0 : state));
  }

  const KernelCall& call_;
  Sizes sizes_;
  Options options_;
  Vector x_, w_, r_, b_, p_;
  Vector h_, c_;  // the current states
  Vector y_;
};

template <int64_t kGates>
Tensors recurrent(const KernelCall& call) {
  const Node& node = call.node;
  const bool batch_first = node.int_or("layout", 0) != 0;
  const Sizes sizes = sizes_of(call, kGates, batch_first);
  const std::vector<std::string_view> defaults = kGates == 1   ? std::vector<std::string_view>{"Tanh"}
                                                 : kGates == 3 ? std::vector<std::string_view>{"Sigmoid", "Tanh"}
                                                               : std::vector<std::string_view>{"Sigmoid", "Tanh", "Tanh"};
  Options options = {batch_first,
                     node.string_or("direction", "forward") == "reverse",
                     node.int_or("linear_before_reset", 0) != 0,
                     node.int_or("input_forget", 0) != 0,
                     node.float_or("clip", 0),
                     activations_of(node, defaults, static_cast<size_t>(sizes.directions))};
  return Recurrence(call, sizes, std::move(options)).run();
}

}  // namespace

void add_recurrent(KernelTable& table) {
  table.add("GRU", recurrent<3>);
  table.add("LSTM", recurrent<4>);
  table.add("RNN", recurrent<1>);
}

}  // namespace kvik::onnx

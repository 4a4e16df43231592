#include <algorithm>
#include <map>
#include <set>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/common.h"
#include "onnx/eval/ops/dispatch.h"
#include "onnx/eval/ops/elements.h"
#include "onnx/eval/ops/matmul.h"

namespace kvik::onnx {
namespace {

// The label of an axis: a letter, or a negative number for an axis of the ellipsis; -1 is the last.
using Label = int;
using Labels = std::vector<Label>;

constexpr size_t kMostAxes = 64;
constexpr int64_t kMostProducts = int64_t{1} << 44;

Labels parse_term(std::string_view term, int n_ellipsis) {
  Labels labels;
  for (size_t i = 0; i < term.size(); ++i) {
    const char c = term[i];
    if (c == ' ') continue;
    if (c == '.') {
      require(term.substr(i, 3) == "...", "the term '{}' has a stray dot", term);
      for (int axis = n_ellipsis; axis > 0; --axis) labels.push_back(-axis);
      i += 2;
      continue;
    }
    require((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), "the term '{}' has an invalid character", term);
    labels.push_back(c);
  }
  require(labels.size() <= kMostAxes, "the term '{}' is too long", term);
  return labels;
}

struct Equation {
  std::vector<Labels> inputs;
  Labels output;
};

int named_axes(std::string_view term) {
  return static_cast<int>(std::count_if(term.begin(), term.end(), [](char c) { return c != ' ' && c != '.'; }));
}

std::vector<std::string_view> split_terms(std::string_view text) {
  std::vector<std::string_view> terms;
  for (size_t comma = text.find(','); comma != std::string_view::npos; comma = text.find(',')) {
    terms.push_back(text.substr(0, comma));
    text.remove_prefix(comma + 1);
  }
  terms.push_back(text);
  return terms;
}

// Without an explicit output: the ellipsis, then every letter that appears once, in alphabetical order.
Labels implied_output(const std::vector<Labels>& inputs) {
  std::map<Label, int> counts;
  for (const Labels& input : inputs) {
    for (const Label label : input) ++counts[label];
  }
  Labels output;
  for (const auto& [label, count] : counts) {
    if (label < 0 || count == 1) output.push_back(label);
  }
  return output;
}

Equation parse_equation(std::string_view text, std::span<const Tensor> inputs) {
  const size_t arrow = text.find("->");
  const std::vector<std::string_view> terms = split_terms(text.substr(0, arrow));
  require(terms.size() == inputs.size(), "the equation '{}' has {} terms for {} inputs", text, terms.size(), inputs.size());
  Equation equation;
  int widest = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const bool has_ellipsis = terms[i].find('.') != std::string_view::npos;
    const int n_ellipsis = has_ellipsis ? inputs[i].rank() - named_axes(terms[i]) : 0;
    equation.inputs.push_back(parse_term(terms[i], std::max(0, n_ellipsis)));
    require(static_cast<int>(equation.inputs[i].size()) == inputs[i].rank(), "the term '{}' does not fit shape {}", terms[i],
            to_string(inputs[i].dims()));
    widest = std::max(widest, n_ellipsis);
  }
  equation.output = arrow == std::string_view::npos ? implied_output(equation.inputs) : parse_term(text.substr(arrow + 2), widest);
  return equation;
}

std::map<Label, int64_t> sizes_of(const Equation& equation, std::span<const Tensor> inputs) {
  std::map<Label, int64_t> sizes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t axis = 0; axis < equation.inputs[i].size(); ++axis) {
      const int64_t dim = inputs[i].dims()[axis];
      int64_t& size = sizes.emplace(equation.inputs[i][axis], dim).first->second;
      require(size == dim || size == 1 || dim == 1, "a label has sizes {} and {}", size, dim);
      if (size == 1) size = dim;
    }
  }
  return sizes;
}

// Iterates over all label values, those of the output outermost, with the offset in each operand.
struct Loops {
  Dims dims;
  std::vector<Dims> strides;  // per operand
  size_t n_kept = 0;          // the first axes, those of the output
  Dims result_dims;
};

Loops loops_of(const Equation& equation, std::span<const Tensor> inputs) {
  std::map<Label, int64_t> sizes = sizes_of(equation, inputs);
  Labels order = equation.output;
  for (const Label label : order) require(sizes.contains(label), "a label of the output is in no input");
  require(std::set<Label>(order.begin(), order.end()).size() == order.size(), "a label is repeated in the output");
  Loops loops;
  loops.n_kept = order.size();
  for (const auto& [label, size] : sizes) {
    if (std::find(equation.output.begin(), equation.output.end(), label) == equation.output.end()) order.push_back(label);
  }
  for (const Label label : order) loops.dims.push_back(sizes[label]);
  loops.result_dims.assign(loops.dims.begin(), loops.dims.begin() + static_cast<int64_t>(loops.n_kept));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Dims dense = strides_of(inputs[i].dims());
    Dims strides(order.size(), 0);
    for (size_t axis = 0; axis < dense.size(); ++axis) {
      const auto at = static_cast<size_t>(std::find(order.begin(), order.end(), equation.inputs[i][axis]) - order.begin());
      if (inputs[i].dims()[axis] != 1) strides[at] += dense[axis];  // a repeated label selects the diagonal
    }
    loops.strides.push_back(std::move(strides));
  }
  return loops;
}

template <class T>
class Contraction {
 public:
  Contraction(const Loops& loops, std::span<const Tensor> inputs) : loops_(loops) {
    for (const Tensor& input : inputs) data_.push_back(input.data<T>().data());
  }

  Tensor run() {
    Tensor result = new_tensor(kDTypeOf<T>, loops_.result_dims);
    to_ = result.mutable_data<T>().data();
    offsets_.assign(data_.size(), 0);
    if (result.size() != 0) descend(0);
    return result;
  }

 private:
  // Moves every operand by `n` steps along an axis.
  void advance(size_t axis, int64_t n) {
    for (size_t operand = 0; operand < offsets_.size(); ++operand) offsets_[operand] += n * loops_.strides[operand][axis];
  }

  void descend(size_t axis) {
    if (axis == loops_.n_kept) {
      *to_++ = static_cast<T>(total(axis));
      return;
    }
    for (int64_t i = 0; i < loops_.dims[axis]; ++i, advance(axis, 1)) descend(axis + 1);
    advance(axis, -loops_.dims[axis]);
  }

  Accumulator<T> total(size_t axis) {
    if (axis == loops_.dims.size()) {
      Accumulator<T> product = 1;
      for (size_t operand = 0; operand < offsets_.size(); ++operand)
        product *= static_cast<Accumulator<T>>(data_[operand][offsets_[operand]]);
      return product;
    }
    Accumulator<T> sum = 0;
    for (int64_t i = 0; i < loops_.dims[axis]; ++i, advance(axis, 1)) sum += total(axis + 1);
    advance(axis, -loops_.dims[axis]);
    return sum;
  }

  const Loops& loops_;
  std::vector<const T*> data_;
  std::vector<int64_t> offsets_;  // per operand
  T* to_ = nullptr;
};

Tensors einsum(const KernelCall& call) {
  for (size_t i = 0; i < call.inputs.size(); ++i) require_same_dtype(call.input(0), call.input(i));
  const Equation equation = parse_equation(call.node.string_or("equation", ""), call.inputs);
  const Loops loops = loops_of(equation, call.inputs);
  const std::optional<int64_t> n_products = checked_elements(loops.dims);
  require(n_products && *n_products < kMostProducts, "it needs more than {} products", kMostProducts);
  call.work.take(loops.dims);
  call.work.take(loops.result_dims);
  return {visit_numeric(call.input(0).dtype(), [&]<class T>(Type<T>) { return Contraction<T>(loops, call.inputs).run(); })};
}

}  // namespace

void add_einsum(KernelTable& table) { table.add("Einsum", in_f32<einsum>); }

}  // namespace kvik::onnx

#include <algorithm>
#include <fmt/format.h>

#include "backend/native/rows/rules.h"

// Products: of rows by a weight, of rows by rows of the same position, of queries by keys, and of attention weights by values.
namespace kvik::native {
namespace {

using enum Symbol;

bool on_keys(const Axes& axes) { return holds(axes, kTotal) || holds(axes, kSource); }

struct Product {
  Axes a, b;  // as multiplied: transposed where the node says so
  Axis inner_a, inner_b;
  Axes m, n;  // the outer axes: one each, none for a vector
  Axes batch_a, batch_b;
};

Product product_of(Step& step, bool swap_a, bool swap_b) {
  Product product{step.fitted(0, {}), step.fitted(1, {})};
  Axes &a = product.a, &b = product.b;
  if (a.empty() || b.empty()) step.refuse("multiplies a scalar");
  if ((swap_a && a.size() < 2) || (swap_b && b.size() < 2)) step.refuse("transposes a vector");
  if (swap_a) std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (swap_b) std::swap(b[b.size() - 1], b[b.size() - 2]);
  product.inner_a = a.back();
  if (a.size() > 1) {
    product.m = {a[a.size() - 2]};
    product.batch_a.assign(a.begin(), a.end() - 2);
  }
  product.inner_b = b.size() > 1 ? b[b.size() - 2] : b.back();
  if (b.size() > 1) {
    product.n = {b.back()};
    product.batch_b.assign(b.begin(), b.end() - 2);
  }
  return product;
}

Axes result_of(Step& step, const Product& product) {
  Axes result = step.broadcast(std::vector<Axes>{product.batch_a, product.batch_b});
  result.insert(result.end(), product.m.begin(), product.m.end());
  result.insert(result.end(), product.n.begin(), product.n.end());
  return result;
}

DType product_dtype(const Step& step) { return step.is("MatMulInteger") ? DType::kI32 : step.dtype(0); }

void by_weight(Step& step, const Product& product) {
  if (has_symbol(product.inner_a) || has_symbol(product.inner_b))
    step.refuse(fmt::format("sums over rows: {} by {}", to_string(product.a), to_string(product.b)));
  if (product.inner_a != product.inner_b)
    step.refuse(fmt::format("inner axes differ: {} by {}", to_string(product.a), to_string(product.b)));
  step.give(0, result_of(step, product), product_dtype(step));
  step.emit();
}

// Keys of a graph without a past are the rows of the call themselves; from the product on they are another axis than the queries.
void tell_keys_from_queries(Step& step, Product& product) {
  if (product.n.empty() || !holds(product.n[0], kNew) || step.one_token()) return;
  Axes queries = product.batch_a;
  if (holds(queries, kNew)) return;  // each row by itself
  queries.insert(queries.end(), product.m.begin(), product.m.end());
  if (!holds(queries, kNew)) return;
  if (step.walk().flat().has_past) step.refuse("multiplies new rows with new rows outside a cache");
  for (Factor& one : step.walk().labels().keys_on_left ? product.m[0] : product.n[0]) {
    if (one == factor(kNew)) one.symbol = kTotal;
  }
}

void of_features(Step& step, Product product) {
  if (product.inner_a != product.inner_b)
    step.refuse(fmt::format("inner axes differ: {} by {}", to_string(product.a), to_string(product.b)));
  if (step.any_score()) step.refuse("multiplies attention scores over an axis of features");
  tell_keys_from_queries(step, product);
  const Axes result = result_of(step, product);
  const bool pairs = holds(result, kNew) && on_keys(result);
  Axes right = product.b;
  right.insert(right.end(), product.n.begin(), product.n.end());
  const bool one_side = step.one_token() && on_keys(product.a) != on_keys(right);
  if (pairs || one_side) {
    if (!step.is("MatMul") && !step.is("FusedMatMul") && !step.is("TransposeMatMul") && !step.is("Gemm"))
      step.refuse("multiplies queries and keys as integers");
    step.walk().labels().query_key[step.node().outputs[0]] = step.id();
    step.mark_score();
  }
  step.give(0, result, product_dtype(step));
  step.emit();
}

bool same_keys(Step& step, const Product& product) {
  const Axis &a = product.inner_a, &b = product.inner_b;
  if (a == b) return true;
  if (step.walk().flat().has_past) return false;
  // Values of a graph without a past are rows of the call: as many as the keys.
  const Axis fresh = {factor(kNew)}, total = {factor(kTotal)};
  return (a == fresh && b == total) || (a == total && b == fresh);
}

void of_weights_and_values(Step& step, const Product& product) {
  const bool left = step.label(0).is_score, right = step.label(1).is_score;
  if (left == right) step.refuse(fmt::format("sums over rows: {} by {}", to_string(product.a), to_string(product.b)));
  if (!same_keys(step, product)) step.refuse(fmt::format("sums over {} and {}", to_string(product.inner_a), to_string(product.inner_b)));
  step.give_attended(0, result_of(step, product), step.dtype(0));
  step.attend(close_attention(step.walk().attention(), step.node(), left ? 0 : 1));
}

void multiply(Step& step, bool swap_a, bool swap_b) {
  const Product product = product_of(step, swap_a, swap_b);
  if (!step.is_row(0) || !step.is_row(1)) return by_weight(step, product);
  if (!has_symbol(product.inner_a) && !has_symbol(product.inner_b)) return of_features(step, product);
  of_weights_and_values(step, product);
}

void matmul(Step& step) { multiply(step, false, false); }

void fused_matmul(Step& step) {
  if (step.node().int_or("transBatchA", 0) != 0 || step.node().int_or("transBatchB", 0) != 0) step.refuse("transposes batches");
  multiply(step, step.node().int_or("transA", 0) != 0, step.node().int_or("transB", 0) != 0);
}

void gemm(Step& step) {
  const bool swap_a = step.node().int_or("transA", 0) != 0, swap_b = step.node().int_or("transB", 0) != 0;
  const Product product = product_of(step, swap_a, swap_b);
  if (product.a.size() != 2 || product.b.size() != 2) step.refuse("multiplies what is no matrix");
  if (step.has(2)) {
    const Axes result = {product.m[0], product.n[0]};
    if (step.broadcast(std::vector<Axes>{result, step.fitted(2, result)}) != result) step.refuse("adds more than it multiplies");
  }
  multiply(step, swap_a, swap_b);
}

}  // namespace

void add_matmul_rules(RuleTable& table) {
  table.add("MatMul", matmul);
  table.add("MatMulInteger", matmul);
  table.add("Gemm", gemm);
  table.add(kMicrosoft, "FusedMatMul", fused_matmul);
  table.add(kMicrosoft, "TransposeMatMul", fused_matmul);
}

}  // namespace kvik::native

#include <fmt/format.h>

#include "backend/native/label/rules.h"

// Products: of rows by a weight, of rows by rows of the same position, of queries by keys, and of attention weights by values.
namespace kvik::native {
namespace {

using enum Symbol;

bool on_keys(const Axes& axes) { return holds(axes, kTotal) || holds(axes, kSource); }

struct Product {
  Axes a, b;  // as multiplied: transposed if the node specifies it
  Axis inner_a, inner_b;
  Axes m, n;  // the outer axes: one each, none for a vector
  Axes batch_a, batch_b;
};

Expected<Product> product_of(NodeLabeler& op, bool swap_a, bool swap_b) {
  Product product;
  KVIK_TRY(product.a, op.fitted(0, {}));
  KVIK_TRY(product.b, op.fitted(1, {}));
  Axes &a = product.a, &b = product.b;
  if (a.empty() || b.empty()) return op.refuse("multiplies a scalar");
  if ((swap_a && a.size() < 2) || (swap_b && b.size() < 2)) return op.refuse("transposes a vector");
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

Expected<Axes> result_of(NodeLabeler& op, const Product& product) {
  KVIK_TRY(Axes result, op.broadcast(std::vector<Axes>{product.batch_a, product.batch_b}));
  result.insert(result.end(), product.m.begin(), product.m.end());
  result.insert(result.end(), product.n.begin(), product.n.end());
  return result;
}

Expected<DType> product_dtype(NodeLabeler& op) { return op.is("MatMulInteger") ? DType::kI32 : op.dtype(0); }

Expected<> by_weight(NodeLabeler& op, const Product& product) {
  if (has_symbol(product.inner_a) || has_symbol(product.inner_b))
    return op.refuse(fmt::format("sums over rows: {} by {}", to_string(product.a), to_string(product.b)));
  if (product.inner_a != product.inner_b)
    return op.refuse(fmt::format("inner axes differ: {} by {}", to_string(product.a), to_string(product.b)));
  return op.emit_with(result_of(op, product), product_dtype(op));
}

// Keys of a graph without a past are the rows of the call themselves; from the product on they are another axis than the queries.
Expected<> tell_keys_from_queries(NodeLabeler& op, Product& product) {
  if (product.n.empty() || !holds(product.n[0], kNew) || op.one_token()) return {};
  Axes queries = product.batch_a;
  if (holds(queries, kNew)) return {};  // each row by itself
  queries.insert(queries.end(), product.m.begin(), product.m.end());
  if (!holds(queries, kNew)) return {};
  if (op.labeler().flat().has_past) return op.refuse("multiplies new rows with new rows outside a cache");
  for (Factor& one : op.labeler().labels().keys_on_left ? product.m[0] : product.n[0]) {
    if (one == factor(kNew)) one.symbol = kTotal;
  }
  return {};
}

Expected<> of_features(NodeLabeler& op, Product product) {
  if (product.inner_a != product.inner_b)
    return op.refuse(fmt::format("inner axes differ: {} by {}", to_string(product.a), to_string(product.b)));
  if (op.any_score()) return op.refuse("multiplies attention scores over an axis of features");
  KVIK_CHECK(tell_keys_from_queries(op, product));
  KVIK_TRY(const Axes result, result_of(op, product));
  const bool pairs = holds(result, kNew) && on_keys(result);
  Axes right = product.b;
  right.insert(right.end(), product.n.begin(), product.n.end());
  const bool one_side = op.one_token() && on_keys(product.a) != on_keys(right);
  if (pairs || one_side) {
    if (!op.is("MatMul") && !op.is("FusedMatMul") && !op.is("TransposeMatMul") && !op.is("Gemm"))
      return op.refuse("multiplies queries and keys as integers");
    op.labeler().labels().query_key[op.node().outputs[0]] = op.id();
    op.mark_score();
  }
  return op.emit_with(result, product_dtype(op));
}

bool same_keys(NodeLabeler& op, const Product& product) {
  const Axis &a = product.inner_a, &b = product.inner_b;
  if (a == b) return true;
  if (op.labeler().flat().has_past) return false;
  // Values of a graph without a past are rows of the call: as many as the keys.
  const Axis fresh = {factor(kNew)}, total = {factor(kTotal)};
  return (a == fresh && b == total) || (a == total && b == fresh);
}

Expected<> of_weights_and_values(NodeLabeler& op, const Product& product) {
  const bool left = op.label(0).is_score, right = op.label(1).is_score;
  if (left == right) return op.refuse(fmt::format("sums over rows: {} by {}", to_string(product.a), to_string(product.b)));
  if (!same_keys(op, product)) return op.refuse(fmt::format("sums over {} and {}", to_string(product.inner_a), to_string(product.inner_b)));
  KVIK_CHECK(op.set_attended_output(0, result_of(op, product), op.dtype(0)));
  op.add_attention(left ? 0 : 1);
  return {};
}

Expected<> multiply(NodeLabeler& op, bool swap_a, bool swap_b) {
  KVIK_TRY(const Product product, product_of(op, swap_a, swap_b));
  if (!op.is_row(0) || !op.is_row(1)) return by_weight(op, product);
  if (!has_symbol(product.inner_a) && !has_symbol(product.inner_b)) return of_features(op, product);
  return of_weights_and_values(op, product);
}

Expected<> matmul(NodeLabeler& op) { return multiply(op, false, false); }

Expected<> fused_matmul(NodeLabeler& op) {
  if (op.node().int_or("transBatchA", 0) != 0 || op.node().int_or("transBatchB", 0) != 0) return op.refuse("transposes batches");
  return multiply(op, op.node().int_or("transA", 0) != 0, op.node().int_or("transB", 0) != 0);
}

Expected<> gemm(NodeLabeler& op) {
  const bool swap_a = op.node().int_or("transA", 0) != 0, swap_b = op.node().int_or("transB", 0) != 0;
  KVIK_TRY(const Product product, product_of(op, swap_a, swap_b));
  if (product.a.size() != 2 || product.b.size() != 2) return op.refuse("multiplies a value that is not a matrix");
  if (op.has(2)) {
    const Axes result = {product.m[0], product.n[0]};
    KVIK_TRY(const Axes added, op.fitted(2, result));
    KVIK_TRY(const Axes sum, op.broadcast(std::vector<Axes>{result, added}));
    if (sum != result) return op.refuse("adds more than it multiplies");
  }
  return multiply(op, swap_a, swap_b);
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

#include <gtest/gtest.h>

#include "onnx/eval/op.h"

namespace kvik::onnx::testing_support {
namespace {

Tensor transposed(const Tensor& x) { return Op("Transpose").run({x}); }

TEST(MatMul, VectorsAreRowsAndColumns) {
  const Tensor m = counting({2, 3});
  const Tensor v = floats({3}, {1, 1, 1});
  expect_equal(Op("MatMul").run({m, v}), floats({2}, {3, 12}));
  expect_equal(Op("MatMul").run({floats({2}, {1, 1}), m}), floats({3}, {3, 5, 7}));
  EXPECT_EQ(Op("MatMul").run({v, v}).dims(), (Dims{}));
}

TEST(MatMul, BatchesBroadcast) {
  const Tensor a = counting({2, 1, 2, 3});
  const Tensor b = counting({4, 3, 2});
  const Tensor c = Op("MatMul").run({a, b});
  EXPECT_EQ(c.dims(), (Dims{2, 4, 2, 2}));
  const Tensor a1 = Op("Slice").run({a, ints({1}), ints({2}), ints({0})});
  const Tensor b3 = Op("Slice").run({b, ints({3}), ints({4}), ints({0})});
  const Tensor expected = Op("MatMul").run({a1.reshaped({2, 3}), b3.reshaped({3, 2})});
  const Tensor found = Op("Slice").run({c, ints({1, 3}), ints({2, 4}), ints({0, 1})});
  expect_equal(found.reshaped({2, 2}), expected);
}

TEST(MatMul, MismatchedShapesAreRefused) {
  EXPECT_NE(Op("MatMul").refusal({counting({2, 3}), counting({2, 3})}), "");
  EXPECT_NE(Op("MatMul").refusal({counting({}), counting({2, 3})}), "");
  EXPECT_NE(Op("MatMul").refusal({counting({3}), ints({1, 2, 3})}), "");
}

TEST(MatMul, EmptySumIsZero) {
  expect_equal(Op("MatMul").run({Tensor(DType::kF32, {2, 0}), Tensor(DType::kF32, {0, 2})}), Tensor(DType::kF32, {2, 2}));
}

TEST(Gemm, IsMatMulAndAdd) {
  const Tensor a = counting({2, 3});
  const Tensor b = counting({3, 4});
  const Tensor c = floats({4}, {1, 2, 3, 4});
  const Tensor expected = Op("Add").run({Op("MatMul").run({a, b}), c});
  expect_equal(Op("Gemm").run({a, b, c}), expected);
  expect_equal(Op("Gemm").set("transA", 1).set("transB", 1).run({transposed(a), transposed(b), c}), expected);
  expect_equal(Op("Gemm").set("alpha", 2.0f).set("beta", 0.0f).run({a, b, c}),
               Op("Mul").run({Op("MatMul").run({a, b}), Tensor::scalar(2.0f)}));
  EXPECT_NE(Op("Gemm").refusal({a, b, counting({3})}), "");
}

TEST(Einsum, EqualsOtherOperators) {
  const Tensor a = counting({2, 3});
  const Tensor b = counting({3, 4});
  expect_equal(Op("Einsum").set("equation", "ij,jk->ik").run({a, b}), Op("MatMul").run({a, b}));
  expect_equal(Op("Einsum").set("equation", "ij, jk").run({a, b}), Op("MatMul").run({a, b}));
  expect_equal(Op("Einsum").set("equation", "ij->ji").run({a}), transposed(a));
  expect_equal(Op("Einsum").set("equation", "ij->").run({a}), Tensor::scalar(15.0f));
  expect_equal(Op("Einsum").set("equation", "ii->i").run({counting({3, 3})}), floats({3}, {0, 4, 8}));
  const Tensor q = counting({2, 2, 3});
  expect_equal(Op("Einsum").set("equation", "...qd,...kd->...qk").run({q, q}),
               Op("MatMul").run({q, Op("Transpose").list("perm", {0, 2, 1}).run({q})}));
}

TEST(Einsum, InvalidEquationsAreRefused) {
  for (const char* equation : {"ij,jk->ik", "ijk->i", "ij->k", "ij->ii", "i.j->i", "i1->i"}) {
    EXPECT_NE(Op("Einsum").set("equation", equation).refusal({counting({2, 3})}), "") << equation;
  }
}

}  // namespace
}  // namespace kvik::onnx::testing_support

#pragma once

#include <gtest/gtest.h>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "kvik/error.h"
#include "onnx/eval/kernel.h"

namespace kvik::onnx::testing_support {

// One node and its inputs: Op("Concat", 13).set("axis", 1).run({a, b}).
class Op {
 public:
  explicit Op(std::string_view op, int opset = 22) {
    node_.op = op;
    node_.opset = opset;
    node_.outputs = {0};
  }

  Op& in(std::string_view domain) {
    node_.domain = domain;
    return *this;
  }
  Op& outputs(int n) {
    node_.outputs.clear();
    for (int i = 0; i < n; ++i) node_.outputs.push_back(i);
    return *this;
  }
  Op& set(std::string_view name, int value) { return add(name, int64_t{value}); }
  Op& set(std::string_view name, int64_t value) { return add(name, value); }
  Op& set(std::string_view name, float value) { return add(name, value); }
  Op& set(std::string_view name, const char* value) { return add(name, std::string_view(value)); }
  Op& list(std::string_view name, std::vector<int64_t> values) { return add(name, std::move(values)); }
  Op& list_of_floats(std::string_view name, std::vector<float> values) { return add(name, std::move(values)); }

  std::vector<Tensor> all(const std::vector<Tensor>& inputs, Work work = {}) const { return run_kernel(node_, inputs, {}, work); }
  Tensor run(const std::vector<Tensor>& inputs) const { return all(inputs).at(0); }

  // The sentence with which it refuses; empty when it does not.
  std::string refusal(const std::vector<Tensor>& inputs, Work work = {}) const {
    try {
      all(inputs, work);
    } catch (const Error& e) { return e.what(); }
    return {};
  }

 private:
  template <class T>
  Op& add(std::string_view name, T value) {
    node_.attributes.push_back({name, std::move(value)});
    return *this;
  }

  Node node_;
};

inline Tensor floats(Dims dims, const std::vector<float>& values) { return Tensor::of(std::move(dims), values); }
inline Tensor ints(Dims dims, const std::vector<int64_t>& values) { return Tensor::of(std::move(dims), values); }
inline Tensor ints(const std::vector<int64_t>& values) { return Tensor::of({static_cast<int64_t>(values.size())}, values); }
inline Tensor bools(Dims dims, std::initializer_list<bool> values) { return Tensor::of<bool>(std::move(dims), values); }

template <class T>
std::vector<T> values(const Tensor& tensor) {
  return {tensor.data<T>().begin(), tensor.data<T>().end()};
}

// 0, 1, 2 … divided by `divisor`.
inline Tensor counting(const Dims& dims, float divisor = 1) {
  Tensor result(DType::kF32, dims);
  float next = 0;
  for (float& x : result.mutable_data<float>()) x = next++ / divisor;
  return result;
}

inline void expect_equal(const Tensor& found, const Tensor& expected) {
  ASSERT_EQ(found.dtype(), expected.dtype());
  ASSERT_EQ(found.dims(), expected.dims());
  if (found.dtype() == DType::kString) {
    EXPECT_EQ(values<std::string>(found), values<std::string>(expected));
  } else {
    EXPECT_TRUE(std::equal(found.bytes().begin(), found.bytes().end(), expected.bytes().begin()));
  }
}

inline void expect_near(const Tensor& found, const Tensor& expected, float tolerance = 1e-5f) {
  ASSERT_EQ(found.dims(), expected.dims());
  for (size_t i = 0; i < found.data<float>().size(); ++i)
    EXPECT_NEAR(found.data<float>()[i], expected.data<float>()[i], tolerance) << "element " << i;
}

}  // namespace kvik::onnx::testing_support

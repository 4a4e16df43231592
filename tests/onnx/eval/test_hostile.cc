#include <gtest/gtest.h>
#include <random>

#include "onnx/eval/converted.h"
#include "onnx/eval/op.h"

// What a graph made to hurt may ask for: each case ends at once, in a sentence or in a small result.
namespace kvik::onnx::testing_support {
namespace {

constexpr int64_t kHuge = int64_t{1} << 50;

TEST(Hostile, HugeResultsAreRefusedBeforeAllocation) {
  const Tensor one = floats({1}, {1});
  EXPECT_NE(Op("Expand").refusal({one, ints({kHuge})}), "");
  EXPECT_NE(Op("Expand").refusal({one, ints({int64_t{1} << 40, int64_t{1} << 40})}), "");
  EXPECT_NE(Op("Expand").refusal({one, ints({-1})}), "");
  EXPECT_NE(Op("Tile").refusal({one, ints({kHuge})}), "");
  EXPECT_NE(Op("Tile").refusal({one, ints({-1})}), "");
  EXPECT_NE(Op("ConstantOfShape").refusal({ints({kHuge})}), "");
  EXPECT_NE(Op("Range").refusal({ints({}, {0}), ints({}, {INT64_MAX}), ints({}, {1})}), "");
  EXPECT_NE(Op("Range").refusal({ints({}, {INT64_MIN}), ints({}, {INT64_MAX}), ints({}, {1})}), "");
  EXPECT_NE(Op("Range").refusal({floats({}, {0}), floats({}, {1e30f}), floats({}, {1e-30f})}), "");
  EXPECT_NE(Op("Pad").refusal({one, ints({kHuge, kHuge})}), "");
  EXPECT_NE(Op("Pad").refusal({one, ints({INT64_MIN, 0})}), "");
  EXPECT_NE(Op("OneHot").refusal({ints({0}), ints({}, {kHuge}), floats({2}, {0, 1})}), "");
  EXPECT_NE(Op("Resize").refusal({one, Tensor(), floats({1}, {1e15f})}), "");
  EXPECT_NE(Op("DepthToSpace").set("blocksize", int64_t{1} << 40).refusal({counting({1, 4, 1, 1})}), "");
}

void expect_small_or_refused(const Op& op, const std::vector<Tensor>& inputs) {
  try {
    for (const Tensor& result : op.all(inputs)) EXPECT_LT(result.bytes().size(), size_t{1} << 20);
  } catch (const Error& e) { EXPECT_STRNE(e.what(), ""); }
}

TEST(Hostile, EmptyTensorsOfHugeShapesTakeNoTime) {
  const Tensor none(DType::kF32, {int64_t{1} << 28, 0, int64_t{1} << 27});
  for (const char* op : {"Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "Trilu", "Relu", "ReduceSum", "Transpose", "Identity"}) {
    expect_small_or_refused(Op(op).set("axis", 1), {none});
  }
  expect_small_or_refused(Op("CumSum"), {none, ints({}, {1})});
  expect_small_or_refused(Op("TopK").set("axis", 1).outputs(2), {none, ints({0})});
  expect_small_or_refused(Op("Concat").set("axis", 1), {none, none});
  expect_small_or_refused(Op("Gather").set("axis", 1), {none, ints({0}, {})});
  expect_small_or_refused(Op("Split").set("axis", 1).outputs(2), {none});
  expect_small_or_refused(Op("MatMul"), {none, Tensor(DType::kF32, {int64_t{1} << 27, 1})});
  expect_small_or_refused(Op("LayerNormalization"), {none, floats({1}, {1})});
  expect_small_or_refused(Op("Slice"), {none, ints({0}), ints({5}), ints({0})});
}

// Random inputs and attributes: a kernel must compute or refuse.
class RandomCalls {
 public:
  explicit RandomCalls(uint32_t seed) : random_(seed) {}

  int64_t number(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  Tensor tensor() {
    constexpr DType kTypes[] = {DType::kF32,  DType::kF32, DType::kF32, DType::kI64, DType::kI64, DType::kI32,    DType::kF16,
                                DType::kBool, DType::kU8,  DType::kI8,  DType::kF64, DType::kI4,  DType::kString, DType::kU64};
    Dims dims(static_cast<size_t>(number(0, 4)));
    for (int64_t& dim : dims) dim = number(0, 3);
    Tensor x(DType::kI64, dims);
    for (int64_t& value : x.mutable_data<int64_t>()) value = number(0, 30) == 0 ? number(INT64_MIN, INT64_MAX) : number(-3, 3);
    return converted(x, kTypes[number(0, std::size(kTypes) - 1)]);
  }

  std::vector<Tensor> inputs() {
    std::vector<Tensor> result(static_cast<size_t>(number(0, 6)));
    const Tensor shared = tensor();
    for (Tensor& input : result) {
      const int64_t kind = number(0, 9);
      if (kind > 0) input = kind < 4 ? shared : tensor();
    }
    return result;
  }

  void decorate(Node& node) {
    for (const std::string_view name : {"axis",
                                        "keepdims",
                                        "k",
                                        "group",
                                        "to",
                                        "blocksize",
                                        "num_heads",
                                        "kv_num_heads",
                                        "q_num_heads",
                                        "block_size",
                                        "bits",
                                        "K",
                                        "N",
                                        "num_groups",
                                        "transA",
                                        "transB",
                                        "p",
                                        "ceil_mode",
                                        "allowzero",
                                        "batch_dims",
                                        "hidden_size",
                                        "layout",
                                        "num_scan_inputs",
                                        "do_rotary",
                                        "interleaved",
                                        "rotary_embedding_dim",
                                        "is_causal",
                                        "unidirectional",
                                        "size",
                                        "output_height",
                                        "stash_type"}) {
      if (number(0, 2) == 0) node.attributes.push_back({name, number(0, 40) == 0 ? number(INT64_MIN, INT64_MAX) : number(-2, 4)});
    }
    for (const std::string_view name : {"axes", "perm", "pads", "kernel_shape", "strides", "dilations", "shape", "split", "starts", "ends",
                                        "output_shape", "output_padding"}) {
      if (number(0, 2) != 0) continue;
      std::vector<int64_t> list(static_cast<size_t>(number(0, 4)));
      for (int64_t& value : list) value = number(0, 60) == 0 ? number(INT64_MIN, INT64_MAX) : number(-1, 3);
      node.attributes.push_back({name, list});
    }
    constexpr std::string_view kWords[] = {"constant", "reflect", "wrap",          "linear",    "cubic",      "SAME_UPPER", "add",
                                           "max",      "LEFT",    "bidirectional", "ij,jk->ik", "...i->i...", "tanh"};
    for (const std::string_view name :
         {"mode", "reduction", "auto_pad", "direction", "equation", "approximate", "padding_mode", "coordinate_transformation_mode"}) {
      if (number(0, 3) == 0) node.attributes.push_back({name, kWords[number(0, std::size(kWords) - 1)]});
    }
    for (const std::string_view name : {"alpha", "epsilon", "scale", "softcap", "spatial_scale"}) {
      if (number(0, 3) == 0) node.attributes.push_back({name, static_cast<float>(number(-2, 2)) / 2});
    }
    node.opset = static_cast<int>(number(1, 25));
    for (int64_t i = number(0, 3); i >= 0; --i) node.outputs.push_back(static_cast<ValueId>(i));
  }

 private:
  std::mt19937 random_;
};

TEST(Hostile, RandomInputsAndAttributesAreComputedOrRefused) {
  int n_computed = 0;
  for (const auto& [domain, op] : reference_kernels().operators()) {
    for (uint32_t seed = 0; seed < 200; ++seed) {
      RandomCalls mischief(seed);
      Node node;
      node.domain = domain;
      node.op = op;
      mischief.decorate(node);
      const std::vector<Tensor> inputs = mischief.inputs();
      SCOPED_TRACE(std::string(op) + " with seed " + std::to_string(seed));
      try {
        run_kernel(node, inputs);
        ++n_computed;
      } catch (const Error& e) { EXPECT_NE(std::string(e.what()), ""); }
    }
  }
  EXPECT_GT(n_computed, 1000);
}

}  // namespace
}  // namespace kvik::onnx::testing_support

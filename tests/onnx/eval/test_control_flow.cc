#include <gmock/gmock.h>

#include "onnx/eval/evaluator.h"
#include "onnx/eval/op.h"

namespace kvik::onnx::testing_support {
namespace {

// A subgraph whose work the test does itself, in `body`.
struct Body {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  RunSubgraph run;

  Body(int n_inputs, int n_outputs, std::function<std::vector<Tensor>(std::span<const Tensor>)> body) {
    graph->values.resize(static_cast<size_t>(n_inputs + n_outputs));
    for (int i = 0; i < n_inputs; ++i) graph->inputs.push_back(i);
    for (int i = 0; i < n_outputs; ++i) graph->outputs.push_back(n_inputs + i);
    run = [body = std::move(body)](const Graph&, std::span<const Tensor> inputs) { return body(inputs); };
  }
};

Node node_with(std::string_view op, int opset, std::string_view attribute, const Body& body, int n_outputs) {
  Node node;
  node.op = op;
  node.opset = opset;
  node.attributes.push_back({attribute, std::shared_ptr<const Graph>(body.graph)});
  for (int i = 0; i < n_outputs; ++i) node.outputs.push_back(i);
  return node;
}

// Adds the iteration's number to a sum; stops when the sum exceeds 5; outputs each sum.
Body summing() {
  return {3, 3, [](std::span<const Tensor> in) {
            const int64_t sum = in[2].data<int64_t>()[0] + in[0].data<int64_t>()[0];
            return std::vector<Tensor>{Tensor::scalar(sum <= 5), Tensor::scalar(sum), Tensor::scalar(sum)};
          }};
}

TEST(Loop, EndsByCountOrCondition) {
  const Body body = summing();
  const Node node = node_with("Loop", 13, "body", body, 2);
  const std::vector<Tensor> counted =
      run_kernel(node, std::vector<Tensor>{Tensor::scalar<int64_t>(3), Tensor::scalar(true), Tensor::scalar<int64_t>(0)}, body.run);
  expect_equal(counted[0], Tensor::scalar<int64_t>(3));
  expect_equal(counted[1], ints({0, 1, 3}));
  const std::vector<Tensor> stopped = run_kernel(node, std::vector<Tensor>{Tensor(), Tensor(), Tensor::scalar<int64_t>(0)}, body.run);
  expect_equal(stopped[1], ints({0, 1, 3, 6}));
}

TEST(Loop, WithoutIterationsHasEmptyOutputsOfTheDeclaredType) {
  const Body body = summing();
  body.graph->values[5].type = ValueType{.dtype = DType::kI64, .dims = std::vector<Dim>{}};
  const std::vector<Tensor> none =
      run_kernel(node_with("Loop", 13, "body", body, 2),
                 std::vector<Tensor>{Tensor::scalar<int64_t>(0), Tensor(), Tensor::scalar<int64_t>(7)}, body.run);
  expect_equal(none[0], Tensor::scalar<int64_t>(7));
  EXPECT_EQ(none[1].dims(), (Dims{0}));
}

TEST(Loop, EndlessLoopIsRefused) {
  const Body forever(2, 1, [](std::span<const Tensor>) { return std::vector<Tensor>{Tensor::scalar(true)}; });
  EXPECT_THROW(run_kernel(node_with("Loop", 13, "body", forever, 0), std::vector<Tensor>{Tensor(), Tensor()}, forever.run), Error);
}

// A loop of `count` iterations whose body is `inner`, or does nothing where there is none. Values: the iteration, the condition, the count.
std::shared_ptr<const Graph> loop_body(const std::shared_ptr<const Graph>& inner) {
  auto body = std::make_shared<Graph>();
  body->values.resize(5);
  body->inputs = {0, 1, 2};
  body->outputs = {3, 4};
  for (int i = 0; i < 2; ++i) {
    Node copy;
    copy.op = "Identity";
    copy.opset = 18;
    copy.inputs = {1 + i};
    copy.outputs = {3 + i};
    body->nodes.push_back(copy);
  }
  if (inner == nullptr) return body;
  Node loop;
  loop.op = "Loop";
  loop.opset = 18;
  loop.inputs = {2, 1, 2};
  loop.outputs = {kNoValue};
  loop.attributes.push_back({"body", inner});
  body->nodes.push_back(loop);
  return body;
}

TEST(Loop, NestedLoopsThatRunTooLongAreRefused) {
  std::shared_ptr<const Graph> nest;
  for (int depth = 0; depth < 5; ++depth) nest = loop_body(nest);
  Graph graph = *nest;
  graph.values[0].name = "step", graph.values[1].name = "go_on", graph.values[2].name = "count";
  Evaluator evaluator(graph, 10'000);
  const auto run = [&](int64_t count) {
    return evaluator.run({{"step", Tensor::scalar<int64_t>(0)}, {"go_on", Tensor::scalar(true)}, {"count", Tensor::scalar(count)}});
  };
  EXPECT_EQ(run(3).size(), 2u);
  EXPECT_THAT([&] { run(100'000); }, testing::ThrowsMessage<Error>(testing::HasSubstr("execute too many nodes")));
}

TEST(Scan, CarriesStateAndStacksOutputsInBothDirections) {
  const Body body(2, 2, [](std::span<const Tensor> in) {
    const Tensor sum = Op("Add").run({in[0], in[1]});
    return std::vector<Tensor>{sum, sum};
  });
  Node node = node_with("Scan", 9, "body", body, 2);
  node.attributes.push_back({"num_scan_inputs", int64_t{1}});
  const std::vector<Tensor> inputs = {floats({2}, {0, 0}), counting({3, 2})};
  const std::vector<Tensor> forward = run_kernel(node, inputs, body.run);
  expect_equal(forward[0], floats({2}, {6, 9}));
  expect_equal(forward[1], floats({3, 2}, {0, 1, 2, 4, 6, 9}));
  node.attributes.push_back({"scan_input_directions", std::vector<int64_t>{1}});
  node.attributes.push_back({"scan_output_axes", std::vector<int64_t>{1}});
  const std::vector<Tensor> backward = run_kernel(node, inputs, body.run);
  expect_equal(backward[1], floats({2, 3}, {4, 6, 6, 5, 8, 9}));
}

TEST(Scan, OfOpset8HasABatchAxis) {
  const Body body(2, 2, [](std::span<const Tensor> in) {
    const Tensor sum = Op("Add").run({in[0], in[1]});
    return std::vector<Tensor>{sum, sum};
  });
  Node node = node_with("Scan", 8, "body", body, 2);
  node.attributes.push_back({"num_scan_inputs", int64_t{1}});
  const std::vector<Tensor> found =
      run_kernel(node, std::vector<Tensor>{Tensor(), floats({2, 1}, {0, 100}), counting({2, 3, 1})}, body.run);
  expect_equal(found[0], floats({2, 1}, {3, 112}));
  expect_equal(found[1], floats({2, 3, 1}, {0, 1, 3, 103, 107, 112}));
}

TEST(If, RunsOneBranchOnly) {
  const Body yes(0, 1, [](std::span<const Tensor>) { return std::vector<Tensor>{Tensor::scalar(1.0f)}; });
  Node node = node_with("If", 13, "then_branch", yes, 1);
  expect_equal(run_kernel(node, std::vector<Tensor>{Tensor::scalar(true)}, yes.run)[0], Tensor::scalar(1.0f));
  EXPECT_THROW(run_kernel(node, std::vector<Tensor>{Tensor::scalar(false)}, yes.run), Error);  // there is no else_branch
  EXPECT_THROW(run_kernel(node, std::vector<Tensor>{Tensor::scalar(true)}), Error);            // and no evaluator to run it
}

}  // namespace
}  // namespace kvik::onnx::testing_support

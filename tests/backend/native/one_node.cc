#include "backend/native/one_node.h"

#include "backend/native/execute/cpu/cpu_runner.h"
#include "backend/native/stages.h"
#include "kernels/cpu/kernels.h"
#include "onnx/eval/kernel.h"

namespace kvik::native::testing_support {
namespace {

constexpr int64_t kCaseRows = 3;

// The program of the node: the rows' operands are slices of one given row.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(const NodeCase& one) : case_(one) {
    program_.flat = std::make_shared<FlatGraph>();
    for (const NodeInput& input : one.inputs) row_size_ += input.constant.defined() ? 0 : element_count(input.row_dims);
    program_.embedding = add_row({row_size_});
  }

  Program run(const Dims& out_dims, DType out_dtype) {
    onnx::Node node = case_node();
    RowOp op;
    int64_t at = 0;
    for (const NodeInput& input : case_.inputs) {
      if (input.constant.defined()) {
        node.inputs.push_back(program_.flat->add_constant("c" + std::to_string(node.inputs.size()), input.constant));
        op.inputs.push_back(constant(node.inputs.back(), input.constant));
      } else {
        op.inputs.push_back({Operand::Kind::kRow, slice(at, input.row_dims)});
        node.inputs.push_back(program_.flat->add_value("row"));
        at += element_count(input.row_dims);
      }
    }
    node.outputs = {program_.flat->add_value("y")};
    op.node = program_.flat->add_node(std::move(node));
    op.outputs = {add_row(out_dims, out_dtype)};
    program_.ops.push_back(op);
    program_.output = op.outputs.front();
    return std::move(program_);
  }

  onnx::Node case_node() const {
    onnx::Node node;
    node.op = case_.op;
    node.domain = case_.domain;
    node.opset = case_.opset;
    node.attributes = case_.attributes;
    return node;
  }
  int64_t row_size() const { return row_size_; }

 private:
  RowId add_row(Dims dims, DType dtype = DType::kF32) {
    program_.values.push_back({"row", dtype, std::move(dims)});
    return static_cast<RowId>(program_.values.size() - 1);
  }

  Operand constant(onnx::ValueId id, const Tensor& tensor) {
    program_.constants.push_back({id, is_float(tensor.dtype()) ? DType::kF32 : tensor.dtype(), tensor.dims()});
    return {Operand::Kind::kConstant, static_cast<int32_t>(program_.constants.size() - 1)};
  }

  // Elements [at, …) of the given row, under these dims.
  RowId slice(int64_t at, const Dims& dims) {
    onnx::Node node;
    node.op = "Slice";
    node.opset = 18;
    RowOp op;
    op.inputs.push_back({Operand::Kind::kRow, program_.embedding});
    node.inputs.push_back(program_.flat->add_value("x"));
    for (const int64_t bound : {at, at + element_count(dims)}) {
      const Tensor tensor = Tensor::of<int64_t>({1}, {bound});
      node.inputs.push_back(program_.flat->add_constant("bound", tensor));
      op.inputs.push_back(constant(node.inputs.back(), tensor));
    }
    node.outputs = {program_.flat->add_value("slice")};
    op.node = program_.flat->add_node(std::move(node));
    op.outputs = {add_row({element_count(dims)})};
    program_.ops.push_back(op);
    RowOp reshape;
    reshape.kind = RowOp::Kind::kReshape;
    reshape.inputs = {{Operand::Kind::kRow, op.outputs.front()}};
    reshape.outputs = {add_row(dims)};
    program_.ops.push_back(reshape);
    return reshape.outputs.front();
  }

  const NodeCase& case_;
  Program program_;
  int64_t row_size_ = 0;
};

Tensor reference_row(const NodeCase& one, const onnx::Node& plain, std::span<const float> row) {
  onnx::Node node = plain;
  std::vector<Tensor> inputs;
  size_t at = 0;
  for (const NodeInput& input : one.inputs) {
    node.inputs.push_back(static_cast<onnx::ValueId>(inputs.size()));
    if (input.constant.defined()) {
      inputs.push_back(input.constant);
      continue;
    }
    const auto n = static_cast<size_t>(element_count(input.row_dims));
    inputs.push_back(Tensor::of<float>(input.row_dims, row.subspan(at, n)));
    at += n;
  }
  node.outputs = {100};
  return onnx::run_kernel(node, inputs).front();
}

void add_floats(const Tensor& tensor, std::vector<float>& to) {
  if (tensor.dtype() == DType::kBool) {
    for (const bool b : tensor.data<bool>()) to.push_back(b ? 1.0f : 0.0f);
  } else {
    to.insert(to.end(), tensor.data<float>().begin(), tensor.data<float>().end());
  }
}

}  // namespace

std::vector<float> noise(int64_t n, int seed) {
  std::vector<float> values;
  uint64_t state = 0x9e3779b97f4a7c15u * static_cast<uint64_t>(seed + 1);
  for (int64_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    values.push_back(static_cast<float>(static_cast<int64_t>(state >> 40) - (1 << 23)) / static_cast<float>(1 << 22));
  }
  return values;
}

Tensor noise_tensor(Dims dims, int seed) {
  const int64_t n = element_count(dims);
  return Tensor::of<float>(std::move(dims), noise(n, seed));
}

NodeAnswer run_node(const NodeCase& one, WeightChoice weights) {
  NodeAnswer answer;
  ProgramBuilder builder(one);
  const std::vector<float> rows = noise(kCaseRows * builder.row_size(), 7);
  const auto row = [&](int64_t i) {
    return std::span(rows).subspan(static_cast<size_t>(i * builder.row_size()), static_cast<size_t>(builder.row_size()));
  };
  const Tensor first = reference_row(one, builder.case_node(), row(0));
  for (int64_t i = 0; i < kCaseRows; ++i) add_floats(reference_row(one, builder.case_node(), row(i)), answer.reference);

  const Program program = builder.run(first.dims(), first.dtype());
  const std::vector<std::string> none;
  const std::shared_ptr<const Plan> plan = make_plan(program, none);
  for (const Op& op : plan->ops) answer.kinds.emplace_back(op.kind());
  ThreadPool pool(2);
  CpuRunner runner({plan, load_weights(*plan, weights, pool, {}), cpu::KvFormat::kF32, &cpu::fastest(), &pool});
  std::vector<RunRow> run_rows(kCaseRows);
  std::vector<int32_t> wanted = {0, 1, 2};
  const RunSequence sequence;
  answer.native.resize(answer.reference.size());
  runner.prepare(run_rows);
  runner.run({run_rows, {&sequence, 1}, {}, rows, wanted, answer.native.data()});
  return answer;
}

}  // namespace kvik::native::testing_support

#include "backend/native/execute/cpu/frame.h"

#include <cstring>
#include <fmt/format.h>

#include "kvik/error.h"

namespace kvik::native {

void Frame::run(OpIndex index) {
  const Op& op = plan_.ops[static_cast<size_t>(index)];
  std::visit([&](const auto& args) { run(op, args); }, op.args);
}

Frame::Reader Frame::reader(const Input& input) const {
  switch (input.kind) {
    case Input::Kind::kValue: {
      const CpuValues::View& view = values_.views[static_cast<size_t>(input.index)];
      return {view.base + input.offset * element_bytes(plan_.value(input.index).dtype), view.stride};
    }
    case Input::Kind::kConstant: {
      const Tensor& tensor = plan_.constants[static_cast<size_t>(input.index)];
      return {tensor.bytes().data() + input.offset * element_bytes(tensor.dtype()), 0};
    }
    case Input::Kind::kTable:
      return {nullptr, 0, input.index, input.offset * element_bytes(plan_.tables[static_cast<size_t>(input.index)].dtype)};
    default: return {};
  }
}

int64_t Frame::count_of(ValueIndex selection, int64_t row) const {
  int32_t count = 0;
  std::memcpy(&count, out_bytes(selection, row) + count_offset(plan_.value(selection)), sizeof count);
  return count;
}

bool Frame::is_selected(const Op& op, int64_t row) const { return count_of(op.selection, row) != 0; }

namespace {

int64_t token_at(const std::byte* bytes, bool narrow) {
  int64_t wide = 0;
  int32_t small = 0;
  if (!narrow) std::memcpy(&wide, bytes, sizeof wide);
  if (narrow) std::memcpy(&small, bytes, sizeof small);
  return narrow ? small : wide;
}

}  // namespace

void Frame::run(const Op& op, const Embed& args) {
  const bool narrow = op.in[0].is_value() && plan_.value(op.in[0].index).dtype == DType::kI32;
  const Reader tokens = reader(op.in[0]);
  const LoadedWeight& weight = values_.weights[static_cast<size_t>(args.weight)];
  const PlanWeight& table = plan_.weights[static_cast<size_t>(args.weight)];
  each_row(op, 4 * table.k, [&](int64_t row) {
    int64_t token = token_at(bytes_at(tokens, row), narrow);
    if (token < 0) token += table.n;
    if (token < 0 || token >= table.n)
      throw Error(Code::kBadArgument, fmt::format("the token {} is not in the vocabulary of {}", token, table.n));
    float* y = out(op, row);
    if (weight.is_packed()) return cpu::unpack_column(weight.packed, token, y);
    if (weight.floats) return cpu::read_column(*weight.floats, token, 0, table.k, y);
    cpu::read_column(*weight.codes, token, y);
  });
}

void Frame::run(const Op& op, const UnaryOp& args) {
  const Reader x = reader(op.in[0]);
  const int64_t n = out_size(op);
  each_row(op, 2 * n, [&](int64_t row) { kernels_.unary(args.op, at(x, row), out(op, row), n); });
}

namespace {

// Group g of an operand.
cpu::Operand operand(const float* x, Spread spread, int64_t g, int64_t size) {
  switch (spread) {
    case Spread::kAll: return {x + g * size};
    case Spread::kEvery: return {x};
    case Spread::kPerGroup: return {x + g, true};
    default: return {x, true};
  }
}

}  // namespace

void Frame::run(const Op& op, const BinaryOp& args) {
  const Reader a = reader(op.in[0]), b = reader(op.in[1]);
  const int64_t n = out_size(op), size = n / args.groups;
  each_row(op, n, [&](int64_t row) {
    const float *pa = at(a, row), *pb = at(b, row);
    float* y = out(op, row);
    for (int64_t g = 0; g < args.groups; ++g)
      kernels_.binary(args.op, operand(pa, args.a, g, size), operand(pb, args.b, g, size), y + g * size, size);
  });
}

void Frame::run(const Op& op, const GateOp& args) {
  const Reader a = reader(op.in[0]), b = reader(op.in[1]);
  const int64_t n = out_size(op);
  each_row(op, 2 * n, [&](int64_t row) { kernels_.gate(args.op, at(a, row), at(b, row), out(op, row), n); });
}

void Frame::run(const Op& op, const ClipOp& args) {
  const Reader x = reader(op.in[0]);
  const int64_t n = out_size(op);
  each_row(op, n, [&](int64_t row) { kernels_.clip(at(x, row), args.low, args.high, out(op, row), n); });
}

void Frame::run(const Op& op, const WhereOp& args) {
  const Reader condition = reader(op.in[0]), yes = reader(op.in[1]), no = reader(op.in[2]);
  const int64_t n = out_size(op), size = n / args.groups;
  each_row(op, n, [&](int64_t row) {
    const float *pc = at(condition, row), *py = at(yes, row), *pn = at(no, row);
    float* y = out(op, row);
    for (int64_t g = 0; g < args.groups; ++g) {
      kernels_.where(operand(pc, args.condition, g, size), operand(py, args.yes, g, size), operand(pn, args.no, g, size), y + g * size,
                     size);
    }
  });
}

void Frame::norm_row(const NormOp& args, const float* x, float* y, int64_t n, const cpu::NormArgs& norm) const {
  const int64_t size = n / args.groups;
  const auto kernel = args.centered ? kernels_.layer_norm : kernels_.rms_norm;
  for (int64_t g = 0; g < args.groups; ++g) kernel(x + g * size, y + g * size, size, norm);
}

void Frame::run(const Op& op, const NormOp& args) {
  const Reader x = reader(op.in[0]);
  const cpu::NormArgs norm{op.in[1] ? at(reader(op.in[1]), 0) : nullptr, op.in[2] ? at(reader(op.in[2]), 0) : nullptr, args.epsilon};
  const int64_t n = out_size(op);
  each_row(op, 2 * n, [&](int64_t row) { norm_row(args, at(x, row), out(op, row), n, norm); });
}

void Frame::run(const Op& op, const SkipNormOp& args) {
  const Reader x = reader(op.in[0]), skip = reader(op.in[1]);
  const float* bias = op.in[2] ? at(reader(op.in[2]), 0) : nullptr;
  const cpu::NormArgs norm{op.in[3] ? at(reader(op.in[3]), 0) : nullptr, op.in[4] ? at(reader(op.in[4]), 0) : nullptr, args.norm.epsilon};
  const int64_t n = out_size(op);
  each_row(op, 3 * n, [&](int64_t row) {
    float* y = out(op, row);
    float* sum = op.out.size() > 1 && op.out[1] != kNoIndex ? out(op, row, 1) : y;
    kernels_.binary(Binary::kAdd, {at(x, row)}, {at(skip, row)}, sum, n);
    if (bias != nullptr) kernels_.binary(Binary::kAdd, {sum}, {bias}, sum, n);
    norm_row(args.norm, sum, y, n, norm);
  });
}

void Frame::run(const Op& op, const SoftmaxOp& args) {
  const Reader x = reader(op.in[0]);
  const int64_t n = out_size(op), size = n / args.groups;
  const auto kernel = args.log ? kernels_.log_softmax : kernels_.softmax;
  each_row(op, 4 * n, [&](int64_t row) {
    for (int64_t g = 0; g < args.groups; ++g) kernel(at(x, row) + g * size, out(op, row) + g * size, size);
  });
}

void Frame::run(const Op& op, const ReduceOp& args) {
  const Reader x = reader(op.in[0]);
  const int64_t n = op.in[0].size, size = n / args.groups;
  each_row(op, n, [&](int64_t row) {
    for (int64_t g = 0; g < args.groups; ++g) out(op, row)[g] = kernels_.reduce(args.op, at(x, row) + g * size, size);
  });
}

void Frame::run(const Op& op, const RotaryOp& args) {
  const Reader x = reader(op.in[0]), cos = reader(op.in[1]), sin = reader(op.in[2]);
  const int64_t n = out_size(op);
  each_row(op, 2 * n, [&](int64_t row) {
    float* y = out(op, row);
    std::memcpy(y, at(x, row), static_cast<size_t>(n) * sizeof(float));
    kernels_.rotary(y, {at(cos, row), at(sin, row), args.n_pairs, args.n_heads, args.head_dim, args.interleaved});
  });
}

void Frame::run(const Op& op, const Move& args) {
  const int64_t size = element_bytes(plan_.value(op.out.front()).dtype);
  constexpr size_t kMostReaders = 64;
  Reader few[kMostReaders];
  std::vector<Reader> many;
  if (op.in.size() > kMostReaders) many.resize(op.in.size());
  Reader* readers = many.empty() ? few : many.data();
  for (size_t i = 0; i < op.in.size(); ++i) readers[i] = reader(op.in[i]);
  each_row(op, out_size(op), [&](int64_t row) {
    std::byte* y = out_bytes(op.out.front(), row);
    for (const Move::Run& run : args.runs) {
      const std::byte* x = bytes_at(readers[run.input], row) + run.from * size;
      if (run.count == 1 && size == 4) {
        std::memcpy(y + run.to * 4, x, 4);
      } else {
        std::memcpy(y + run.to * size, x, static_cast<size_t>(run.count * size));
      }
    }
  });
}

void Frame::run(const Op& op, const ReadRegister& args) {
  const auto bytes = static_cast<size_t>(out_size(op) * element_bytes(plan_.value(op.out.front()).dtype));
  for (int64_t row = 0; row < n_rows(); ++row) {
    const RunSequence& sequence = sequences_[static_cast<size_t>(rows_[static_cast<size_t>(row)].sequence)];
    std::memcpy(out_bytes(op.out.front(), row), sequence.registers[args.index], bytes);
  }
}

void Frame::run(const Op& op, const WriteRegister& args) {
  const Plan::PlanRegister& r = plan_.registers[static_cast<size_t>(args.index)];
  const Reader x = reader(op.in[0]);
  for (int64_t row = 0; row < n_rows(); ++row) {
    const RunSequence& sequence = sequences_[static_cast<size_t>(rows_[static_cast<size_t>(row)].sequence)];
    std::memcpy(sequence.registers[args.index], bytes_at(x, row), static_cast<size_t>(r.size * element_bytes(r.dtype)));
  }
}

}  // namespace kvik::native

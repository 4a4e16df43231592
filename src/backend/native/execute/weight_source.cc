#include "backend/native/execute/weight_source.h"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>

#include "backend/graph/convert.h"
#include "backend/native/probe/evaluation.h"
#include "base/mapped_file.h"
#include "base/thread_pool.h"
#include "kvik/error.h"

namespace kvik::native {
namespace {

constexpr uint64_t kZeros[2] = {0, 0};

const std::string& name_of(const Plan& plan, int tensor) { return plan.tensors[static_cast<size_t>(tensor)].name; }

[[noreturn]] void bad_tensors(const Plan& plan, const WeightPart& part, std::string_view what) {
  throw Error(Code::kBadModel, fmt::format("the weight '{}' has {} for a matrix of {} x {}; the file is damaged", name_of(plan, part.value),
                                           what, part.k, part.n));
}

// An initializer as the file has it; anything else evaluated.
Tensor load(const Plan& plan, int index) {
  const ModelTensor& tensor = plan.tensors[static_cast<size_t>(index)];
  if (tensor.expression != nullptr) {
    WorkBudget budget{.largest_bytes = int64_t{1} << 34, .bytes_left = int64_t{1} << 40};  // weights may be large
    const ValueOf nothing = [](onnx::ValueId) -> Tensor { throw Error(Code::kInternal, "a constant reads outside of its graph"); };
    return run_graph(tensor.expression->graph(), {}, nothing, budget).at(0);
  }
  onnx::TensorData data = tensor.data;
  data.name = tensor.name;
  return onnx::load(data);
}

// The bytes of an initializer that are part of a mapped file.
std::span<const std::byte> bytes_in_file(const Plan& plan, int index, const Tensor& tensor) {
  const ModelTensor& of = plan.tensors[static_cast<size_t>(index)];
  const bool viewed = static_cast<const void*>(tensor.bytes().data()) == static_cast<const void*>(of.data.stored.data());
  return of.in_file && viewed ? tensor.bytes() : std::span<const std::byte>();
}

bool is_plain_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF64; }

WeightSource float_source(const Plan& plan, const WeightPart& part) {
  WeightSource source;
  Tensor tensor = load(plan, part.value);
  if (!is_plain_float(tensor.dtype())) tensor = backend::cast_float(tensor, DType::kF32);
  const int64_t slice = std::max<int64_t>(part.slice, 0);
  if (tensor.size() < (slice + 1) * part.k * part.n || part.k < 1 || part.n < 1) {
    throw Error(Code::kBadModel, fmt::format("the weight '{}' has the shape {}; {} x {} was expected", name_of(plan, part.value),
                                             kvik::to_string(tensor.dims()), part.k, part.n));
  }
  const std::byte* data = tensor.bytes().data() + storage_bytes(tensor.dtype(), slice * part.k * part.n);
  source.floats = cpu::FloatSource{tensor.dtype(), data, part.k, part.n, part.n_major};
  source.views = {tensor};
  if (part.slice < 0) source.in_file = bytes_in_file(plan, part.value, tensor);
  if (part.n_major) source.column_bytes = static_cast<int64_t>(storage_bytes(tensor.dtype(), part.k));
  return source;
}

void require_bytes(const Plan& plan, const WeightPart& part, const Tensor& tensor, int64_t bytes, std::string_view what) {
  if (static_cast<int64_t>(tensor.size_bytes()) < bytes)
    bad_tensors(plan, part, fmt::format("the {} take {} bytes; {} were expected", what, tensor.size_bytes(), bytes));
}

// Packed codes of n rows, each of whole blocks along k.
WeightSource nbits_source_of(const Plan& plan, const WeightPart& part) {
  const Quantization& blocked = part.quantization;
  WeightSource source;
  if (blocked.block < 1) bad_tensors(plan, part, "no block size");
  const Tensor codes = load(plan, part.value), scales = load(plan, part.scales);
  const int64_t n_blocks = (part.k + blocked.block - 1) / blocked.block;
  require_bytes(plan, part, codes, part.n * n_blocks * blocked.block * blocked.bits / 8, "codes");
  if (scales.size() < part.n * n_blocks || !is_float(scales.dtype())) bad_tensors(plan, part, fmt::format("{} scales", scales.size()));
  source.views = {codes, scales};
  source.in_file = bytes_in_file(plan, part.value, codes);
  source.column_bytes = n_blocks * blocked.block * blocked.bits / 8;
  const void* zero_points = nullptr;
  if (part.zero_points >= 0) {
    source.views.push_back(load(plan, part.zero_points));
    require_bytes(plan, part, source.views.back(), part.n * ((n_blocks * blocked.bits + 7) / 8), "zero points");
    zero_points = source.views.back().bytes().data();
  }
  source.codes = cpu::nbits_source(
      {part.k, part.n, blocked.bits, blocked.block, codes.bytes().data(), scales.bytes().data(), scales.dtype(), zero_points});
  return source;
}

// A table of GatherBlockQuantized: as above, but 4-bit types count from 0 if there are no zero points.
WeightSource table_source(const Plan& plan, const WeightPart& part) {
  WeightSource source = nbits_source_of(plan, part);
  const DType dtype = source.views.front().dtype();
  if (dtype == DType::kU8) return source;
  source.codes->codes.dtype = dtype;
  if (part.zero_points < 0) {
    source.codes->zero_points = {kZeros, dtype, 0, 0};
  } else {  // not padded to bytes
    source.codes->zero_points = {source.views.back().bytes().data(), dtype, 1, part.k / part.quantization.block};
  }
  return source;
}

struct Strides {
  int64_t k = 0, n = 0;
};

// DequantizeLinear, and the operands of integer products: one scale, one a column, or one a block along k.
WeightSource linear_source(const Plan& plan, const WeightPart& part) {
  WeightSource source;
  const Tensor codes = load(plan, part.value), scales = load(plan, part.scales);
  if (codes.size() != part.k * part.n) bad_tensors(plan, part, fmt::format("{} codes", codes.size()));
  source.views = {codes, scales};
  const Strides code_strides = part.n_major ? Strides{1, part.k} : Strides{part.n, 1};
  cpu::QuantSource q{part.k, part.n, part.k};
  q.codes = {codes.bytes().data(), codes.dtype(), code_strides.k, code_strides.n};

  const bool along_k = part.quantization.axis == (part.n_major ? 1 : 0);
  const int64_t block = part.quantization.block;
  Strides strides;
  if (scales.size() == 1) {
    strides = {0, 0};
  } else if (block > 0 && along_k && scales.size() == part.n * ((part.k + block - 1) / block)) {
    q.block = block;
    strides = part.n_major ? Strides{1, (part.k + block - 1) / block} : Strides{part.n, 1};
  } else if (block == 0 && along_k && scales.size() == part.k) {
    q.block = 1;
    strides = {1, 0};
  } else if (block == 0 && !along_k && scales.size() == part.n) {
    strides = {0, 1};
  } else {
    bad_tensors(plan, part, fmt::format("scales of the shape {}", kvik::to_string(scales.dims())));
  }
  if (!is_float(scales.dtype())) bad_tensors(plan, part, "scales that are not floats");
  q.scales = {scales.bytes().data(), scales.dtype(), strides.k, strides.n};
  q.zero_points = {kZeros, codes.dtype(), 0, 0};
  if (part.zero_points >= 0) {
    const Tensor zero_points = load(plan, part.zero_points);
    const bool one = zero_points.size() == 1;
    if (!one && zero_points.size() != scales.size() && !(scales.size() == 1 && zero_points.size() == part.n))
      bad_tensors(plan, part, fmt::format("{} zero points", zero_points.size()));
    source.views.push_back(zero_points);
    const Strides own = one ? Strides{} : scales.size() == 1 ? Strides{0, 1} : strides;
    q.zero_points = {zero_points.bytes().data(), zero_points.dtype(), own.k, own.n};
  }
  source.codes = q;
  return source;
}

// An exponent of ones alone makes an infinity or NaN.
template <class Bits>
bool all_finite(const void* data, int64_t first, int64_t n, Bits exponent) {
  const Bits* x = static_cast<const Bits*>(data) + first;
  Bits infinite = 0;
  for (int64_t i = 0; i < n; ++i) infinite = static_cast<Bits>(infinite | ((x[i] & exponent) == exponent ? 1 : 0));
  return infinite == 0;
}

bool all_finite(DType dtype, const void* data, int64_t first, int64_t n) {
  switch (dtype) {
    case DType::kF32: return all_finite<uint32_t>(data, first, n, 0x7f800000u);
    case DType::kF16: return all_finite<uint16_t>(data, first, n, 0x7c00u);
    case DType::kBF16: return all_finite<uint16_t>(data, first, n, 0x7f80u);
    case DType::kF64: return all_finite<uint64_t>(data, first, n, uint64_t{0x7ff} << 52);
    default: return true;
  }
}

}  // namespace

WeightSource weight_source(const Plan& plan, const WeightPart& part) {
  switch (part.quantization.kind) {
    case Quantization::Kind::kNone: return float_source(plan, part);
    case Quantization::Kind::kBlocks: return nbits_source_of(plan, part);
    case Quantization::Kind::kBlockTable: return table_source(plan, part);
    default: return linear_source(plan, part);
  }
}

void check_finite(const Plan& plan, const WeightPart& part, const WeightSource& source, ColumnRange columns, ThreadPool& pool) {
  constexpr int64_t kChunk = 1 << 16;
  std::atomic<bool> finite = true;
  const auto check = [&](DType dtype, const void* data, int64_t first, int64_t n) {
    if (!all_finite(dtype, data, first, n)) finite = false;
  };
  const auto check_all = [&](DType dtype, const void* data, int64_t first, int64_t n) {
    pool.for_ranges(n, kChunk, [&](int64_t begin, int64_t end) { check(dtype, data, first + begin, end - begin); });
  };
  const int64_t n_columns = columns.end - columns.begin;
  if (source.floats && source.floats->n_major) {
    check_all(source.floats->dtype, source.floats->data, columns.begin * part.k, n_columns * part.k);
  } else if (source.floats) {
    pool.for_ranges(part.k, std::max<int64_t>(1, kChunk / n_columns), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) check(source.floats->dtype, source.floats->data, k * part.n + columns.begin, n_columns);
    });
  }
  if (source.codes && columns.begin == 0) check_all(source.views[1].dtype(), source.views[1].bytes().data(), 0, source.views[1].size());
  if (finite) return;
  const int named = source.floats ? part.value : part.scales;
  throw Error(Code::kBadModel,
              fmt::format("the weight '{}' has a number that is not finite; export the model again", name_of(plan, named)));
}

void drop_columns(const WeightSource& source, ColumnRange columns) {
  const std::span<const std::byte> bytes = source.in_file;
  const auto part = [&](int64_t first, int64_t n_bytes) {
    if (first >= 0 && first + n_bytes <= static_cast<int64_t>(bytes.size()))
      drop_pages(bytes.subspan(static_cast<size_t>(first), static_cast<size_t>(n_bytes)));
  };
  if (bytes.empty()) return;
  if (source.column_bytes > 0) return part(columns.begin * source.column_bytes, (columns.end - columns.begin) * source.column_bytes);
  if (!source.floats || source.floats->n_major) return;
  const auto bytes_of = [&](int64_t n) { return static_cast<int64_t>(storage_bytes(source.floats->dtype, n)); };
  for (int64_t k = 0; k < source.floats->k; ++k)
    part(bytes_of(k * source.floats->n + columns.begin), bytes_of(columns.end - columns.begin));
}

}  // namespace kvik::native

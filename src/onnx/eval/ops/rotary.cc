#include "onnx/eval/ops/rotary.h"

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/attend.h"
#include "onnx/eval/ops/numbers.h"

namespace kvik::onnx {
namespace {

// The operand as heads, and back to its original shape.
struct Rotated {
  Heads heads;
  bool is_3d = false;

  Tensor tensor(DType dtype) const { return is_3d ? tensor_3d(dtype, heads) : tensor_4d(dtype, heads); }
};

Rotated operand(const Tensor& x, int64_t n_heads) {
  require_float(x, "the input");
  if (x.rank() == 4) return {heads_of_4d(x, "the input"), false};
  require_rank(x, 3, "the input");
  require(n_heads > 0, "attribute 'num_heads' is {}; expected a positive number for an input of three dimensions", n_heads);
  return {heads_of_3d(x, n_heads, "the input"), true};
}

int64_t rotated_size(const Node& node, int64_t head_size) {
  const int64_t size = node.int_or("rotary_embedding_dim", 0);
  require(size >= 0 && size <= head_size && size % 2 == 0, "attribute 'rotary_embedding_dim' is {}; expected an even number up to {}", size,
          head_size);
  return size == 0 ? head_size : size;
}

void require_pairs(int64_t found, int64_t rotated) {
  require(found * 2 == rotated, "the tables have {} pairs; {} elements must be rotated", found, rotated);
}

std::vector<Tensor> rotary_embedding(const KernelCall& call) {
  const Node& node = call.node;
  Rotated x = operand(call.input(0), node.int_or("num_heads", 0));
  Heads& heads = x.heads;
  const bool interleaved = node.int_or("interleaved", 0) != 0;
  Tensor cosines = call.input(1), sines = call.input(2);
  std::vector<int64_t> positions;
  if (call.has(3)) {
    require_dims(call.input(3), {heads.batch, heads.length}, "position_ids");
    positions = integers_of(call.input(3));
  } else {
    // Without positions, every token has its own angles: [batch, length, pairs].
    require_dims(cosines, {heads.batch, heads.length, -1}, "the cosines");
    require_dims(sines, {heads.batch, heads.length, -1}, "the sines");
    cosines = cosines.reshaped({heads.batch * heads.length, cosines.dim(2)});
    sines = sines.reshaped({heads.batch * heads.length, sines.dim(2)});
  }
  const RotaryTable table(cosines, sines);
  require_pairs(table.pairs(), rotated_size(node, heads.size));
  for_rows(heads, [&](int64_t b, int64_t h, int64_t i) {
    const int64_t token = b * heads.length + i;
    table.rotate(heads.row(b, h, i), positions.empty() ? token : positions[static_cast<size_t>(token)], interleaved);
  });
  return {x.tensor(call.input(0).dtype())};
}

// com.microsoft: the head size of a 3D input may be given only by the width of the tables.
int64_t microsoft_heads(const Node& node, const Tensor& x, int64_t pairs) {
  const int64_t n_heads = node.int_or("num_heads", 0);
  if (n_heads > 0 || x.rank() != 3) return n_heads;
  require(node.int_or("rotary_embedding_dim", 0) == 0, "attribute 'rotary_embedding_dim' needs 'num_heads'");
  require(pairs > 0 && x.dim(2) % (2 * pairs) == 0, "an input of shape {} cannot be divided into heads of {} elements", to_string(x.dims()),
          2 * pairs);
  return x.dim(2) / (2 * pairs);
}

void require_no_scale(const Node& node) {
  require(node.float_or("scale", 1.0f) == 1.0f, "attribute 'scale' is {}, only 1 has a defined meaning", node.float_or("scale", 1.0f));
}

// Shared by both operators of com.microsoft: the tables and the operand.
struct MicrosoftRotary {
  explicit MicrosoftRotary(const KernelCall& call)
      : table(call.input(2), call.input(3)), x(operand(call.input(0), microsoft_heads(call.node, call.input(0), table.pairs()))) {
    require_no_scale(call.node);
    require_pairs(table.pairs(), rotated_size(call.node, x.heads.size));
  }
  RotaryTable table;
  Rotated x;
};

std::vector<Tensor> microsoft_rotary_embedding(const KernelCall& call) {
  const Node& node = call.node;
  auto [table, x] = MicrosoftRotary(call);
  Heads& heads = x.heads;
  const std::vector<int64_t> positions = integers_of(call.input(1));
  const bool one_start = positions.size() == 1 && call.input(1).rank() < 2;
  if (!one_start) require_dims(call.input(1), {heads.batch, heads.length}, "position_ids");
  require(!one_start || positions[0] < table.positions(), "position {} is outside the table", positions[0]);
  for_rows(heads, [&](int64_t b, int64_t h, int64_t i) {
    const int64_t position = one_start ? positions[0] + i : positions[static_cast<size_t>(b * heads.length + i)];
    table.rotate(heads.row(b, h, i), position, node.int_or("interleaved", 0) != 0);
  });
  return {x.tensor(call.input(0).dtype())};
}

// Selects which of the three positions of a token (time, height, width) rotates pair d.
class Sections {
 public:
  Sections(const Node& node, int64_t pairs) : sizes_(node.ints_or("mrope_section", {})), interleaved_(node.int_or("mrope_layout", 0) == 1) {
    const int64_t layout = node.int_or("mrope_layout", 0);
    require(layout == 0 || layout == 1, "attribute 'mrope_layout' is {}; expected 0 or 1", layout);
    require(sizes_.size() == 3, "attribute 'mrope_section' has {} numbers, 3 were expected", sizes_.size());
    int64_t sum = 0;
    for (const int64_t size : sizes_) {
      require(size >= 0 && size <= pairs, "a section has {} pairs; there are {}", size, pairs);
      sum += size;
    }
    require(sum == pairs, "the sections have {} pairs; there are {}", sum, pairs);
  }

  int64_t stream(int64_t pair) const {
    if (!interleaved_) return pair < sizes_[0] ? 0 : pair < sizes_[0] + sizes_[1] ? 1 : 2;
    const int64_t turn = pair % 3;
    return turn > 0 && pair < 3 * sizes_[static_cast<size_t>(turn)] ? turn : 0;
  }

 private:
  std::vector<int64_t> sizes_;
  bool interleaved_;
};

std::vector<Tensor> multimodal_rotary_embedding(const KernelCall& call) {
  const Node& node = call.node;
  auto [table, x] = MicrosoftRotary(call);
  Heads& heads = x.heads;
  require_dims(call.input(1), {3, heads.batch, heads.length}, "position_ids");
  const std::vector<int64_t> positions = integers_of(call.input(1));
  const Sections sections(node, table.pairs());
  std::vector<double> cosines(static_cast<size_t>(table.pairs())), sines(cosines.size());
  for_rows(heads, [&](int64_t b, int64_t h, int64_t i) {
    for (size_t d = 0; d < cosines.size(); ++d) {
      const int64_t stream = sections.stream(static_cast<int64_t>(d));
      const int64_t position = positions[static_cast<size_t>((stream * heads.batch + b) * heads.length + i)];
      cosines[d] = table.cosines(position)[d];
      sines[d] = table.sines(position)[d];
    }
    rotate(heads.row(b, h, i), cosines, sines, node.int_or("interleaved", 0) != 0);
  });
  return {x.tensor(call.input(0).dtype())};
}

}  // namespace

void rotate(std::span<double> vector, std::span<const double> cosines, std::span<const double> sines, bool interleaved) {
  const size_t pairs = cosines.size();
  for (size_t d = 0; d < pairs; ++d) {
    double& first = vector[interleaved ? 2 * d : d];
    double& second = vector[interleaved ? 2 * d + 1 : pairs + d];
    const double x = first, y = second;
    first = cosines[d] * x - sines[d] * y;
    second = sines[d] * x + cosines[d] * y;
  }
}

RotaryTable::RotaryTable(const Tensor& cosines, const Tensor& sines) {
  require_rank(cosines, 2, "the table of cosines");
  require(cosines.dims() == sines.dims(), "found tables of cosines {} and sines {}; expected equal shapes", to_string(cosines.dims()),
          to_string(sines.dims()));
  positions_ = cosines.dim(0);
  pairs_ = cosines.dim(1);
  cosines_ = doubles_of(cosines);
  sines_ = doubles_of(sines);
}

void RotaryTable::rotate(std::span<double> vector, int64_t position, bool interleaved) const {
  require(static_cast<int64_t>(vector.size()) >= 2 * pairs_, "{} elements cannot be rotated by angles for {} pairs", vector.size(), pairs_);
  onnx::rotate(vector, cosines(position), sines(position), interleaved);
}

std::span<const double> RotaryTable::row(const std::vector<double>& table, int64_t position) const {
  require(position >= 0 && position < positions_, "position {} is outside the rotary table of {}", position, positions_);
  return std::span(table).subspan(static_cast<size_t>(position * pairs_), static_cast<size_t>(pairs_));
}

void add_rotary(KernelTable& table) {
  table.add("RotaryEmbedding", rotary_embedding);
  table.add(kMicrosoft, "RotaryEmbedding", microsoft_rotary_embedding);
  table.add(kMicrosoft, "MRotaryEmbedding", multimodal_rotary_embedding);
}

}  // namespace kvik::onnx

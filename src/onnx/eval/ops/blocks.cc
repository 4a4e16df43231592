#include "onnx/eval/groups.h"
#include "onnx/eval/ops/common.h"
#include "onnx/eval/ops/elements.h"

// Operators that move elements between channels and space.
namespace kvik::onnx {
namespace {

int64_t block_size(const KernelCall& call) {
  const int64_t size = call.node.int_or("blocksize", 0);
  require(size > 0 && size < (1 << 20), "blocksize is {}; expected a positive number", size);
  return size;
}

Tensors depth_to_space(const KernelCall& call) {
  const Tensor& x = call.input(0);
  require_rank(x, 4, "the input");
  const int64_t b = block_size(call);
  const std::string_view mode = call.node.string_or("mode", "DCR");
  require(mode == "DCR" || mode == "CRD", "mode '{}' is unknown; expected 'DCR' or 'CRD'", mode);
  require(x.dim(1) % (b * b) == 0, "{} channels cannot be divided into blocks of {}", x.dim(1), b * b);
  const int64_t c = x.dim(1) / (b * b);
  const int64_t h = x.dim(2);
  const int64_t w = x.dim(3);
  if (x.size() == 0) return {new_tensor(x.dtype(), {x.dim(0), c, element_count(Dims{h, b}), element_count(Dims{w, b})})};
  const Dims dims = {x.dim(0), c, h, b, w, b};
  const int64_t plane = h * w;
  const Dims strides = mode == "DCR" ? Dims{x.dim(1) * plane, plane, w, b * c * plane, 1, c * plane}
                                     : Dims{x.dim(1) * plane, b * b * plane, w, b * plane, 1, plane};
  return {strided_copy(x, 0, dims, strides).reshaped({x.dim(0), c, h * b, w * b})};
}

Tensors space_to_depth(const KernelCall& call) {
  const Tensor& x = call.input(0);
  require_rank(x, 4, "the input");
  const int64_t b = block_size(call);
  const int64_t c = x.dim(1);
  require(x.dim(2) % b == 0 && x.dim(3) % b == 0, "shape {} cannot be divided into blocks of {}", to_string(x.dims()), b);
  const int64_t h = x.dim(2) / b;
  const int64_t w = x.dim(3) / b;
  if (x.size() == 0) return {new_tensor(x.dtype(), {x.dim(0), element_count(Dims{b, b, c}), h, w})};
  const int64_t row = x.dim(3);
  const int64_t plane = x.dim(2) * row;
  const Tensor blocks = strided_copy(x, 0, {x.dim(0), b, b, c, h, w}, {c * plane, row, 1, plane, b * row, b});
  return {blocks.reshaped({x.dim(0), b * b * c, h, w})};
}

}  // namespace

void add_blocks(KernelTable& table) {
  table.add("DepthToSpace", depth_to_space);
  table.add("SpaceToDepth", space_to_depth);
}

}  // namespace kvik::onnx

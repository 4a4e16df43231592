// The small models that cut, join and bring back caches on a device, run on the host: there the plain functions say what is right.
#include <gmock/gmock.h>

#include "api/environment.h"
#include "backend/graph/batch_tensor.h"
#include "backend/ort/small_graphs.h"
#include "backend/ort/value.h"
#include "support/models.h"

namespace kvik::backend::ort {
namespace {

std::shared_ptr<const Library> library() {
  const api::Environment environment = api::read_environment();
  const LibrarySearch search{environment.ort_library, environment.python_prefixes};
  return find_library(search).empty() ? nullptr : Library::open(search);
}

Tensor counting(DType dtype, const Dims& dims) {
  Tensor tensor(dtype, dims);
  const std::span<std::byte> bytes = tensor.mutable_bytes();
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 % 61);
  return tensor;
}

std::vector<std::byte> bytes_of(const Tensor& tensor) { return {tensor.bytes().begin(), tensor.bytes().end()}; }

struct Layout {
  const char* name;
  DType dtype;
  Dims dims;
  analysis::State state;
};

std::vector<Layout> layouts() {
  analysis::State usual;  // [B, H, P, D]
  usual.batch_axis = 0, usual.head_axis = 1, usual.position_axis = 2, usual.feature_axis = 3, usual.n_heads = 2;
  analysis::State positions_first = usual;  // [P, B, H, D]
  positions_first.batch_axis = 1, positions_first.head_axis = 2, positions_first.position_axis = 0;
  analysis::State folded = usual;  // [B H, P, D]
  folded.head_axis = 0, folded.position_axis = 1, folded.feature_axis = 2;
  analysis::State recurrent = usual;  // [B, D]
  recurrent.head_axis = -1, recurrent.position_axis = -1, recurrent.growth = analysis::Growth::kRecurrent;
  return {{"usual", DType::kF32, {3, 2, 5, 4}, usual},
          {"halves", DType::kF16, {3, 2, 5, 4}, usual},
          {"positions_first", DType::kF32, {5, 3, 2, 4}, positions_first},
          {"folded", DType::kF32, {6, 5, 4}, folded},
          {"recurrent", DType::kF32, {3, 4}, recurrent}};
}

class OnDevice : public testing::TestWithParam<Layout> {};

TEST_P(OnDevice, RowsAreSelectedAsOnTheHost) {
  const std::shared_ptr<const Library> opened = library();
  KVIK_NEEDS_ORT(opened);
  const Layout& layout = GetParam();
  const Tensor cache = counting(layout.dtype, layout.dims);
  const std::vector<int> rows = {2, 0, 0, 1};
  std::vector<StateRow> expected_rows;
  for (const int row : rows) expected_rows.push_back({cache, row});
  const Tensor expected = gather_rows(layout.state, expected_rows, 3);

  const auto device = std::make_shared<Device>(opened, SessionSettings{});
  const OrtSession any(opened, {}, copy_graph(DType::kF32), "test");
  const ValueHandle fed = any.view_of(cache);
  const auto made =
      std::make_shared<MadeValue>(device->select(fed.get(), layout.dtype, selection_of(layout.state, rows, 3)), opened, "test", device);
  EXPECT_EQ(made->dims(), expected.dims());
  EXPECT_EQ(bytes_of(made->to_host()), bytes_of(expected));
}

INSTANTIATE_TEST_SUITE_P(All, OnDevice, testing::ValuesIn(layouts()), [](const auto& layout) { return layout.param.name; });

}  // namespace
}  // namespace kvik::backend::ort

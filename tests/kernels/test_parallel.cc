#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

#include "kernels/cpu/parallel.h"

namespace kvik::cpu {
namespace {

std::vector<WeightLayout> layouts() {
  std::vector<WeightLayout> all;
  for (const int64_t n : {1, 16, 40, 288, 896, 4864}) {
    all.push_back(block_layout({.bits = 8, .block = 32}, 896, n));
    all.push_back(float_layout(WeightFormat::kF32, 64, n));
  }
  return all;
}

// fn(items, rows) for products of many shapes on many threads.
template <class Fn>
void for_products(Fn fn) {
  for (const WeightLayout& layout : layouts())
    for (const int64_t n_rows : {1, 2, 5, 16, 33, 512})
      for (const int64_t tile : {8, 12, 16})
        for (const int64_t row_bytes : {64, 8192})
          for (const int n_threads : {1, 2, 3, 16, 64})
            fn(product_items(layout, {n_rows, tile, row_bytes}, n_threads), RowTiles{n_rows, tile, row_bytes});
}

TEST(ProductItems, EveryPanelOfEveryRowIsInExactlyOneItem) {
  for_products([](const ProductItems& items, const RowTiles& rows) {
    std::vector<int> times(static_cast<size_t>(items.n_panels * rows.n_rows));
    for (int64_t item = 0; item < items.n_items(); ++item) {
      const PanelRange panels = items.panels(item);
      const int64_t first = items.first_row(item);
      ASSERT_LE(panels.end, items.n_panels);
      for (int64_t row = first; row < std::min(rows.n_rows, first + items.rows_each); ++row)
        for (int64_t panel = panels.begin; panel < panels.end; ++panel) ++times[static_cast<size_t>(row * items.n_panels + panel)];
    }
    for (const int n : times) ASSERT_EQ(n, 1);
  });
}

TEST(ProductItems, BordersAreAtWholeTilesAndGroups) {
  for_products([](const ProductItems& items, const RowTiles& rows) {
    for (int64_t item = 0; item < items.n_items(); ++item) {
      ASSERT_EQ(items.panels(item).begin % items.group_panels, 0);
      ASSERT_LT(items.panels(item).begin, items.panels(item).end);
      ASSERT_EQ(items.first_row(item) % rows.tile, 0);
      ASSERT_LT(items.first_row(item), rows.n_rows);
    }
  });
}

TEST(ProductItems, LargeProductsHaveAnItemForEachThread) {
  const WeightLayout layout = block_layout({.bits = 8, .block = 32}, 896, 896);
  for (const int n_threads : {2, 16, 64}) EXPECT_GE(product_items(layout, {512, 8, 896}, n_threads).n_items(), n_threads);
}

TEST(ProductItems, NeighborsShareWhatHasMoreBytes) {
  const WeightLayout layout = block_layout({.bits = 8, .block = 128}, 896, 896);
  const ProductItems of_rows = product_items(layout, {512, 16, 896}, 16), few_rows = product_items(layout, {64, 16, 896}, 16);
  EXPECT_EQ(of_rows.first_row(0), of_rows.first_row(1));
  EXPECT_NE(of_rows.panels(0).begin, of_rows.panels(1).begin);
  ASSERT_GT(few_rows.n_row_items, 1);
  EXPECT_NE(few_rows.first_row(0), few_rows.first_row(1));
  EXPECT_EQ(few_rows.panels(0).begin, few_rows.panels(1).begin);
}

}  // namespace
}  // namespace kvik::cpu

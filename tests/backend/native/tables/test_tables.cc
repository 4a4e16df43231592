// Position tables are data: computed before a run, as far as it needs them, and never as far as a config file claims.
#include <algorithm>
#include <cstring>
#include <gmock/gmock.h>
#include <limits>

#include "backend/native/compile.h"
#include "backend/native/stages.h"
#include "backend/native/tables/table_rows.h"
#include "base/json.h"
#include "kvik/error.h"
#include "support/models.h"

namespace kvik::native {
namespace {

using kvik::testing_support::fixtures;
using kvik::testing_support::TemporaryFolder;

std::filesystem::path fable() { return kvik::testing_support::source_root() / "models" / "fable"; }

// A copy of a model that claims another context.
class Claiming {
 public:
  Claiming(const std::filesystem::path& model, int64_t n_positions) {
    for (const auto& entry : std::filesystem::directory_iterator(model))
      std::filesystem::create_symlink(entry.path(), folder_.path() / entry.path().filename());
    Json config = read_json_file(model / "config.json");
    config["max_position_embeddings"] = n_positions;
    std::filesystem::remove(folder_.path() / "config.json");
    folder_.write("config.json", config.dump());
  }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

constexpr int64_t kClaims[] = {10'485'760, 100'000'000, int64_t{1} << 31, int64_t{1} << 62, std::numeric_limits<int64_t>::max()};

class ClaimedContexts : public testing::TestWithParam<std::filesystem::path> {};

// Rows far behind each other were once kept with everything between them.
TEST_P(ClaimedContexts, AreProbedOnlyAsFarAsIsUseful) {
  for (const int64_t claim : kClaims) {
    const Claiming model(GetParam(), claim);
    const auto backend = kvik::testing_support::open_native(model.path(), {.n_threads = 1});
    EXPECT_LE(backend->traits().max_positions, kMostPositions) << claim;
    EXPECT_GT(backend->traits().max_positions, 0) << claim;
  }
}

TEST_P(ClaimedContexts, MayComeFromAnOption) {
  for (const int64_t context : {int64_t{std::numeric_limits<int>::max()}, std::numeric_limits<int64_t>::max()}) {
    const auto backend = kvik::testing_support::open_native(GetParam(), {.n_threads = 1, .context = context});
    EXPECT_LE(backend->traits().max_positions, kMostPositions);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ClaimedContexts, testing::Values(fable(), fixtures() / "forms" / "length-switch"),
                         [](const auto& one) { return one.index == 0 ? "Plain" : "LengthSwitch"; });

std::shared_ptr<const Plan> plan_of(const std::filesystem::path& folder) {
  const analysis::Signature signature = analysis::analyze(folder);
  return take(compile_stages(signature, {})).decoder;
}

TEST(PositionTables, RowsDoNotDependOnHowTablesWereExtended) {
  for (const std::filesystem::path& folder : {fable(), fixtures() / "zoo" / "small-merged", fixtures() / "zoo" / "qwen2"}) {
    const std::shared_ptr<const Plan> plan = plan_of(folder);
    ASSERT_FALSE(plan->tables.empty()) << folder;
    for (size_t t = 0; t < plan->tables.size(); ++t) {
      const PlanTable& table = plan->tables[t];
      const int which[] = {static_cast<int>(t)};
      const int64_t end = table.limit > 0 ? std::min<int64_t>(table.limit, 700) : 700;
      PositionTables at_once(plan->tables), row_by_row(plan->tables);
      at_once.extend(which, end);
      for (int64_t position = 0; position < end; ++position) row_by_row.extend(which, position + 1);
      const size_t row_bytes = storage_bytes(table.dtype, table.size);
      for (const int64_t position : {int64_t{0}, int64_t{1}, int64_t{255}, int64_t{256}, end - 1}) {
        if (position >= end) continue;
        const Tensor alone = table_rows(table, position, 1);
        EXPECT_EQ(std::memcmp(at_once.row(which[0], position), alone.bytes().data(), row_bytes), 0) << folder << position;
        EXPECT_EQ(std::memcmp(row_by_row.row(which[0], position), alone.bytes().data(), row_bytes), 0) << folder << position;
      }
    }
  }
}

TEST(PositionTables, AreSizedByWhatIsUsed) {
  const Claiming model(fable(), 10'485'760);
  const std::shared_ptr<const Plan> plan = plan_of(model.path());
  PositionTables tables(plan->tables);
  std::vector<int> all;
  for (size_t t = 0; t < plan->tables.size(); ++t) all.push_back(static_cast<int>(t));
  EXPECT_EQ(tables.size_bytes(), 0u);
  tables.extend(all, 100);
  size_t row_bytes = 0;
  for (const PlanTable& table : plan->tables) row_bytes += storage_bytes(table.dtype, table.size);
  EXPECT_LE(tables.size_bytes(), 256 * row_bytes);
  tables.extend(all, 1000);
  EXPECT_LE(tables.size_bytes(), 2 * 1024 * row_bytes);
}

TEST(PositionTables, PositionsBeyondTheLimitAreAnErrorAndChangeNothing) {
  PlanTable table;
  table.name = "angles";
  table.size = 2;
  table.limit = 3;
  table.lookup = Tensor::of<float>({3, 2}, {0, 1, 2, 3, 4, 5});
  const std::vector<PlanTable> one = {table};
  PositionTables tables(one);
  const int which[] = {0};
  tables.extend(which, 2);
  EXPECT_THROW(tables.extend(which, 4), Error);
  EXPECT_TRUE(tables.covers(which, 2));
  const auto* row = reinterpret_cast<const float*>(tables.row(0, 1));
  EXPECT_EQ(row[0], 2);
  EXPECT_EQ(row[1], 3);
  tables.extend(which, 3);
  EXPECT_FALSE(tables.covers(which, 4));
}

}  // namespace
}  // namespace kvik::native

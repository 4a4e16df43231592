// Models with one change: if the reference evaluator still runs it, the compiler must refuse it or compute it correctly. A mutant is
// judged if the reference runs it to finite numbers; mutants are drawn until enough have been judged.
// KVIK_MUTANTS=N judges N of every test model, and 3,000 in all, instead of a few of some.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "backend/native/compile.h"
#include "backend/native/native_backend.h"
#include "backend/reference/reference_backend.h"
#include "support/models.h"
#include "support/mutate.h"
#include "support/paths.h"
#include "support/programs.h"
#include "support/row_interpreter.h"

namespace kvik {
namespace {

using testing_support::ModelFolder;
using testing_support::Mutant;
using LogitRows = std::vector<std::vector<float>>;

int n_wanted() {
  const char* wanted = std::getenv("KVIK_MUTANTS");
  return wanted != nullptr ? std::atoi(wanted) : 0;
}

int n_rows() { return n_wanted() > 0 ? 30 : 9; }

TokenId token(int i, int64_t vocab) { return static_cast<TokenId>((20 + i * 7) % vocab); }

bool is_finite(const LogitRows& rows) {
  return std::all_of(rows.begin(), rows.end(), [](const std::vector<float>& row) {
    return std::all_of(row.begin(), row.end(), [](float x) { return std::isfinite(x); });
  });
}

// All rows in one call, or one call per row. Nullopt if the backend refuses the model or returns no numbers.
using Open = std::function<std::unique_ptr<backend::Backend>()>;
std::optional<LogitRows> run(const Open& open, bool one_by_one) {
  try {
    const auto backend = open();
    const auto cache = backend->new_cache();
    backend::Cache* const caches[] = {cache.get()};
    std::vector<backend::Row> rows;
    for (int i = 0; i < n_rows(); ++i) rows.push_back({token(i, backend->traits().vocab), i, 0, true});
    LogitRows result;
    backend::Logits logits;
    for (int i = 0; i < (one_by_one ? n_rows() : 1); ++i) {
      const std::span<const backend::Row> now = one_by_one ? std::span<const backend::Row>(&rows[static_cast<size_t>(i)], 1) : rows;
      EXPECT_EQ(backend->run(now, caches, logits), backend::RunStatus::kDone);
      for (int r = 0; r < logits.n_rows(); ++r) result.emplace_back(logits.row(r).begin(), logits.row(r).end());
    }
    return static_cast<int>(result.size()) == n_rows() ? std::optional(result) : std::nullopt;
  } catch (const Error&) { return {}; }
}

std::optional<LogitRows> by_reference(const analysis::Signature& signature, bool one_by_one) {
  const auto rows = run([&] { return backend::make_reference_backend(signature); }, one_by_one);
  return rows && is_finite(*rows) ? rows : std::nullopt;
}

// The whole way: fused, with our own kernels.
std::optional<LogitRows> by_native(const analysis::Signature& signature) {
  return run([&] { return backend::make_native_backend(signature, {.n_threads = 1}, {}); }, false);
}

// Over the largest number of `a`.
double difference(const LogitRows& a, const LogitRows& b) {
  double largest = 1e-6, most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size()) return INFINITY;
    for (size_t j = 0; j < a[i].size(); ++j) {
      if (!std::isfinite(b[i][j])) return INFINITY;
      largest = std::max(largest, std::abs(static_cast<double>(a[i][j])));
      most = std::max(most, std::abs(static_cast<double>(a[i][j]) - static_cast<double>(b[i][j])));
    }
  }
  return most / largest;
}

// But for one number in a thousand: a mutant may divide by what is nearly zero, where rounding decides.
bool agree(const LogitRows& a, const LogitRows& b) {
  if (difference(a, b) <= 1e-3) return true;
  size_t n_all = 0, n_apart = 0;
  float largest = 1e-6f;
  for (const std::vector<float>& row : a) {
    for (const float x : row) largest = std::max(largest, std::abs(x));
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size()) return false;
    for (size_t j = 0; j < a[i].size(); ++j) n_apart += !(std::abs(a[i][j] - b[i][j]) <= 1e-3f * largest) ? 1 : 0;
    n_all += a[i].size();
  }
  return n_apart * 1000 <= n_all;
}

// Kernels round otherwise than the reference evaluator. A mutant may blow that up (it divides by what a norm has made nearly zero), as it
// blows up a change of the last bit of each weight.
bool agree_within_rounding(const LogitRows& reference, const LogitRows& native, analysis::Signature signature) {
  if (agree(reference, native)) return true;
  std::mt19937 random(1);
  signature.files.at(0).model = testing_support::with_rounded_weights(signature.files[0].model, random);
  const auto moved = by_reference(signature, false);
  return moved && difference(reference, native) <= 4 * difference(reference, *moved);
}

// The file declares that it takes one token at a time, so neither the original nor the mutant defines several.
bool is_for_one_token(const native::Program& program) {
  return program.one_token || (!program.attends.empty() && program.attends[0].words.find("one at a time") != std::string::npos);
}

struct Tally {
  int not_run = 0, refused = 0, right = 0, right_one_by_one = 0;
  std::vector<std::string> wrong;

  int judged() const { return refused + right + right_one_by_one + static_cast<int>(wrong.size()); }
};

// The rows of a program with one position too many are not a wrong answer but a refusal at run time.
std::optional<LogitRows> by_rows(const native::Program& program, int64_t vocab) {
  std::vector<backend::Row> rows;
  for (int i = 0; i < n_rows(); ++i) rows.push_back({.token = token(i, vocab), .position = i});
  const auto& forbidden = program.unsupported_tokens;
  for (const backend::Row& row : rows) {
    if (std::find(forbidden.begin(), forbidden.end(), row.token) != forbidden.end()) return {};
  }
  if (program.max_positions && *program.max_positions < n_rows()) return {};
  try {
    return testing_support::RowInterpreter(program).run(rows);
  } catch (const Error&) { return {}; }
}

void judge(analysis::Signature signature, const Mutant& mutant, Tally& tally) {
  signature.files.at(0).model = mutant.model;
  const auto reference = by_reference(signature, false);
  if (!reference) {
    ++tally.not_run;
    return;
  }
  const analysis::File& file = signature.files[0];
  native::Outcome<native::Program> program = native::compile_file(file, {.cached_branch = mutant.cached_branch});
  const bool has_buffer = std::ranges::any_of(file.states, [](const auto& state) { return state.growth == analysis::Growth::kFixed; });
  if (!program && has_buffer) program = native::compile_file(file, {.cached_branch = mutant.cached_branch, .cut_buffer = true});
  if (!program) {
    ++tally.refused;
    return;
  }
  const auto rows = by_rows(*program, signature.vocab.value_or(1));
  if (!rows) {
    ++tally.refused;
  } else if (agree(*reference, *rows)) {
    const auto native = by_native(signature);
    if (!native || agree_within_rounding(*reference, *native, signature)) {
      ++tally.right;
    } else {
      tally.wrong.push_back(fmt::format("{} (in the plan, not in the program; by {:.2g})", mutant.what, difference(*reference, *native)));
    }
  } else if (const auto alone = by_reference(signature, true); alone && agree(*alone, *rows) && is_for_one_token(*program)) {
    ++tally.right_one_by_one;
  } else {
    tally.wrong.push_back(fmt::format("{} ({}; by {:.2g})", mutant.what, program->attends.empty() ? "" : program->attends[0].words,
                                      difference(*reference, *rows)));
  }
}

class Mutants : public testing::TestWithParam<ModelFolder> {
 protected:
  // Of all models: a compiler that refused everything would never be wrong either.
  static void TearDownTestSuite() {
    fmt::print("{} mutants judged, {} of them compiled\n", n_judged, n_compiled);
    EXPECT_GE(n_compiled * 5, n_judged);
    if (n_wanted() > 0) { EXPECT_GE(n_judged, 3000); }
  }

  inline static int n_judged = 0, n_compiled = 0;
};

TEST_P(Mutants, AreRefusedOrComputedCorrectly) {
  analysis::Signature signature;
  try {
    signature = analysis::analyze(GetParam().path);
  } catch (const Error&) { GTEST_SKIP() << "its analysis asks a question"; }
  if (signature.kind != analysis::Kind::kDecoder || signature.files.size() != 1) GTEST_SKIP() << "not one decoder file";
  Tally unchanged, tally;
  judge(signature, {signature.files[0].model, "nothing"}, unchanged);
  if (n_wanted() == 0) { ASSERT_EQ(unchanged.right, 1) << "the model itself is not compiled right"; }
  if (unchanged.right == 0) GTEST_SKIP() << "it rounds otherwise, or is not a program over rows";
  std::mt19937 random(static_cast<uint32_t>(3 + n_wanted()));
  const int wanted = std::max(12, n_wanted());
  for (int drawn = 0; tally.judged() < wanted && drawn < 20 * wanted; ++drawn) {
    if (const auto mutant = testing_support::mutate(signature.files[0], random)) judge(signature, *mutant, tally);
  }
  EXPECT_THAT(tally.wrong, testing::IsEmpty());
  EXPECT_GE(tally.judged(), wanted) << tally.not_run << " were not run by the reference";
  n_judged += tally.judged();
  n_compiled += tally.right + tally.right_one_by_one;
  if (n_wanted() == 0) return;
  fmt::print("{}: {} not run, {} refused, {} right, {} right token by token, {} wrong\n", GetParam().name, tally.not_run, tally.refused,
             tally.right, tally.right_one_by_one, tally.wrong.size());
}

std::vector<ModelFolder> folders() {
  if (n_wanted() > 0) return testing_support::model_folders();
  std::vector<ModelFolder> result;
  for (const char* name :
       {"zoo/qwen2", "zoo/small-hand", "zoo/small-merged", "zoo/small-stacked-dynamo", "forms/plain", "forms/fused-heads", "rules/plain",
        "rules/alibi", "rules/table", "rules/sink", "rules/rotated", "rules/shared-keys", "rules/heads-in-queries", "rules/no-past"}) {
    result.push_back({name, testing_support::fixtures() / name});
  }
  return result;
}

INSTANTIATE_TEST_SUITE_P(Of, Mutants, testing::ValuesIn(folders()), testing_support::NameOfParam());

}  // namespace
}  // namespace kvik

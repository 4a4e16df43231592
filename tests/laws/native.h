#pragma once

#include <cstring>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "api/load.h"
#include "engine/sequence.h"
#include "kernels/cpu/kernels.h"
#include "kvik/error.h"
#include "support/models.h"

// The laws of the native backend: a row has the same logits, bit for bit, however it was computed.
namespace kvik::testing_support {

using LogitsRow = std::vector<float>;
using BackendPtr = std::shared_ptr<backend::Backend>;

inline BackendPtr open_native(const std::filesystem::path& folder, LoadOptions options = {}) {
  options.backend = BackendChoice::kNative;
  return api::open_backend(analysis::analyze(folder), options, api::read_environment(), {});
}

// Null if the model does not compile for the native backend, which other tests check.
inline BackendPtr try_native(const std::filesystem::path& folder, const LoadOptions& options = {}) {
  try {
    return open_native(folder, options);
  } catch (const Error& e) {
    if (e.code() == Code::kUnsupported) return nullptr;
    throw;
  }
}

inline testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << a.size() << " logits against " << b.size();
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0)
      return testing::AssertionFailure() << fmt::format("logit {} is {:.9g} against {:.9g}", i, a[i], b[i]);
  }
  return testing::AssertionSuccess();
}

// Ids from all over the vocabulary; the same in every run.
inline std::vector<TokenId> synthetic_ids(int n, int vocab, int from = 31) {
  std::vector<TokenId> ids;
  for (int i = 0; i < n; ++i) ids.push_back(static_cast<TokenId>((int64_t{i} * 7919 + from) % vocab));
  return ids;
}

// Appends the logits after each of `ids`, computed in one run.
inline void rows_of_piece(engine::Sequence& sequence, std::span<const TokenId> ids, std::vector<LogitsRow>& rows) {
  const auto see = [&](int, std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); };
  if (sequence.append_and_see(ids, see) != AppendStatus::kDone) throw Error(Code::kTooLarge, "the prompt does not fit into the context");
}

inline std::vector<LogitsRow> rows_of(const BackendPtr& backend, std::span<const TokenId> ids,
                                      std::shared_ptr<const backend::Source> source = nullptr) {
  std::vector<LogitsRow> rows;
  engine::Sequence sequence(backend, 0, std::move(source));
  rows_of_piece(sequence, ids, rows);
  return rows;
}

inline void expect_same_rows(const std::vector<LogitsRow>& a, const std::vector<LogitsRow>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same_bits(a[i], b[i])) << what << ", row " << i;
}

}  // namespace kvik::testing_support

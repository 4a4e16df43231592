#include "backend/native/execute/cpu/cpu_runner.h"

#include <algorithm>
#include <chrono>

#include "backend/native/execute/cpu/cpu_output.h"
#include "base/memory_info.h"

namespace kvik::native {
namespace {

constexpr int64_t kValueBytes = int64_t{32} << 20;  // of the values of one call, at most
constexpr int64_t kFewRows = 128;                   // of a call that reads its weights often enough

// Of a part: fewer rows would read the weights too often, more would leave a slow thread with too much.
constexpr int64_t kLeastGoodRows = 16, kMostGoodRows = 64, kWeightBytesPerRow = 400 << 10;
constexpr int kMostPartsPerThread = 4;
constexpr size_t kMostChoiceRows = 4;  // of calls for which the number of threads is chosen

// Of a thread, for parts to pay: the more threads share the bandwidth of the cache, the more often each must use what it has read.
int64_t fewest_part_rows(int n_threads) { return std::clamp(n_threads / 2, 1, 8); }

}  // namespace

CpuRunner::CpuRunner(Parts parts)
    : cpu_plan_(std::move(parts.plan), std::move(parts.weights), *parts.kernels, parts.kv_format),
      pool_(*parts.pool),
      tables_(plan()),
      recorder_(parts.recorder == nullptr ? std::nullopt : std::make_optional<OpRecorder>(*parts.recorder, cpu_plan_)),
      whole_(cpu_plan_, tables_, pool_, recorder_ ? &*recorder_ : nullptr),
      threads_(parts.chooses_threads ? std::make_optional<ThreadChoice>(pool_.most_threads()) : std::nullopt) {
  cache_bytes_.page = static_cast<size_t>(std::max<int64_t>(64, cpu_plan_.layouts.page_bytes));
  cache_bytes_.source_page = static_cast<size_t>(std::max<int64_t>(64, cpu_plan_.layouts.source_page_bytes));
}

// So many that their values, which every op reads and writes, stay in the cache that all cores share.
int CpuRunner::preferred_rows() const {
  const int64_t row_bytes = std::max<int64_t>(1, cpu_plan_.placement.body_bytes);
  const int64_t in_cache = static_cast<int64_t>(shared_cache_bytes()) / 3 / row_bytes / 32 * 32;
  return static_cast<int>(std::clamp<int64_t>(std::min(std::max(kFewRows, in_cache), kValueBytes / row_bytes), 16, 512));
}

void CpuRunner::clear_positions(std::byte* page, int first) const {
  for (size_t i = 0; i < plan().attends.size(); ++i) {
    const cpu::Attention& attention = cpu_plan_.layouts.of_attend[i];
    if (!plan().attends[i].from_source) cpu::clear_positions(attention.layout, page + attention.page_offset, first);
  }
}

void CpuRunner::copy_positions(kv::PageAddress from, kv::PageAddress to, int n) const {
  for (size_t i = 0; i < plan().attends.size(); ++i) {
    const cpu::Attention& attention = cpu_plan_.layouts.of_attend[i];
    if (!plan().attends[i].from_source) cpu::copy_positions(attention.layout, from + attention.page_offset, to + attention.page_offset, n);
  }
}

void CpuRunner::prepare(std::span<const RunRow> rows) {
  tables_.extend(Op::Section::kBody, rows);
  tables_.extend(Op::Section::kTail, rows);
}

void CpuRunner::prepare_source(std::span<const RunRow> rows) { tables_.extend(Op::Section::kSource, rows); }

// Decode steps of few sequences are many and alike, so that their times can be compared; prompts and batches use all threads.
void CpuRunner::run(const RunCall& call) {
  if (!threads_) return run_all(call);
  const bool counts = call.rows.size() <= kMostChoiceRows;
  if (counts && call.rows.size() != n_rows_before_) threads_->forget();
  if (counts) n_rows_before_ = call.rows.size();
  pool_.use(counts ? threads_->n_threads() : pool_.most_threads());
  const auto start = std::chrono::steady_clock::now();
  run_all(call);
  if (counts) threads_->took(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

// The copy of the matrix is made when it is first needed: those who read all logits do without.
std::shared_ptr<OutputRows> CpuRunner::keep_output(std::span<const int32_t> n_candidates, std::shared_ptr<OutputRows> reused) {
  if (!CpuOutput::finds(n_candidates)) return nullptr;
  if (!has_made_head_) head_ = ApproximateHead::make(cpu_plan_, pool_);
  has_made_head_ = true;
  if (head_ == nullptr) return nullptr;
  auto output = std::dynamic_pointer_cast<CpuOutput>(reused);
  if (output == nullptr || output->head() != head_) output = std::make_shared<CpuOutput>(head_);
  output->reserve(static_cast<int64_t>(n_candidates.size()));
  return output;
}

void CpuRunner::run_all(const RunCall& call) {
  tables_.require(Op::Section::kBody, call.rows);
  tables_.require(Op::Section::kTail, call.rows);
  if (!runs_in_waves(plan(), call)) return run_rows(call);
  waves_.run(call, output_size(), [this](const RunCall& wave) { run_rows(wave); });
}

// run_part(runner, part) for each of parts_, on all threads.
template <class RunPart>
void CpuRunner::run_parts(RunPart run_part) {
  const OpRecorder* const recorder = recorder_ ? &*recorder_ : nullptr;
  while (part_runners_.size() < parts_.size())
    part_runners_.push_back(std::make_unique<RowRunner>(cpu_plan_, tables_, alone_, recorder, pool_.most_threads()));
  part_wanted_.resize(std::max(part_wanted_.size(), parts_.size()));
  if (recorder != nullptr) recorder->begin_parts();
  pool_.for_each(static_cast<int64_t>(parts_.size()), [&](int64_t i) {
    const auto part = static_cast<size_t>(i);
    run_part(*part_runners_[part], part);
  });
}

void CpuRunner::run_rows(const RunCall& call) {
  int64_t weight_bytes = cpu_plan_.section(Op::Section::kBody).weight_bytes + cpu_plan_.section(Op::Section::kTail).weight_bytes;
  if (call.kept != nullptr) weight_bytes -= head_->unread_bytes();
  if (!cut(call.rows, weight_bytes)) return whole_.run(call);
  run_parts([&](RowRunner& runner, size_t part) { runner.run(part_of(call, part)); });
}

void CpuRunner::run_source(std::span<const RunRow> rows, std::span<const RunSequence> sources,
                           std::span<const std::span<const float>> inputs) {
  tables_.require(Op::Section::kSource, rows);
  pool_.use(pool_.most_threads());
  if (!cut(rows, cpu_plan_.section(Op::Section::kSource).weight_bytes)) return whole_.run_source(rows, sources, inputs, 0);
  run_parts([&](RowRunner& runner, size_t part) {
    const auto [begin, end] = parts_[part];
    runner.run_source(rows.subspan(begin, end - begin), sources, inputs, begin);
  });
}

// Into parts_; false if the ops run one after another on all rows. Parts need no other thread until they have finished, and a row's values
// stay in the cache of its core, but every part reads all weights: from a cache that all cores share, or it does not pay.
bool CpuRunner::cut(std::span<const RunRow> rows, int64_t weight_bytes) {
  static const auto cache_bytes = static_cast<int64_t>(shared_cache_bytes());
  const auto n_rows = static_cast<int64_t>(rows.size());
  const int n_threads = pool_.n_threads();
  if (n_threads == 1 || n_rows < fewest_part_rows(n_threads) * n_threads || weight_bytes > cache_bytes / 2) return false;
  const int64_t good_rows = std::clamp(weight_bytes / kWeightBytesPerRow, kLeastGoodRows, kMostGoodRows);
  const auto per_thread = static_cast<int>(std::clamp<int64_t>(n_rows / (good_rows * n_threads), 1, kMostPartsPerThread));
  cut_rows(rows, per_thread * n_threads, parts_);
  return parts_.size() > 1;
}

RunCall CpuRunner::part_of(const RunCall& call, size_t part) {
  const auto [begin, end] = parts_[part];
  const size_t n = end - begin, embedding = call.embeddings.size() / call.rows.size();
  const auto first_wanted = std::ranges::lower_bound(call.wanted, static_cast<int32_t>(begin));
  const auto end_wanted = std::ranges::lower_bound(call.wanted, static_cast<int32_t>(end));
  std::vector<int32_t>& wanted = part_wanted_[part];
  wanted.clear();
  for (auto row = first_wanted; row != end_wanted; ++row) wanted.push_back(*row - static_cast<int32_t>(begin));
  RunCall result = call;
  result.rows = call.rows.subspan(begin, n);
  if (!call.tokens.empty()) result.tokens = call.tokens.subspan(begin, n);
  result.embeddings = call.embeddings.subspan(begin * embedding, n * embedding);
  result.wanted = wanted;
  const int64_t n_before = first_wanted - call.wanted.begin();
  if (call.kept == nullptr) result.output = call.output + n_before * call.stride_of_output(output_size());
  result.first_kept = call.first_kept + n_before;
  return result;
}

}  // namespace kvik::native

#include "backend/native/native_backend.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <mutex>
#include <thread>

#include "backend/native/cache_pages.h"
#include "backend/native/compile_cache.h"
#include "backend/native/execute/device/shared_device.h"
#include "backend/native/execute/execute.h"
#include "backend/native/graph/outcome.h"
#include "backend/native/native_cache.h"
#include "backend/native/native_traits.h"
#include "backend/native/source_stage.h"
#include "backend/native/stages.h"
#include "kernels/device/bandwidth.h"
#include "kvik/error.h"

namespace kvik::backend {
namespace {

using native::Plan;
using native::Runner;

class NativeBackend final : public Backend {
 public:
  NativeBackend(analysis::Signature signature, const NativeOptions& options, const Log& log);

  const Traits& traits() const override { return traits_; }
  int preferred_chunk() const override { return decoder_->preferred_rows(); }
  std::unique_ptr<Cache> new_cache(std::shared_ptr<const Source> source, int length) override;
  bool can_continue(const Cache& cache, int length) const override;
  std::unique_ptr<Cache> fork(const Cache& cache) override;
  void fork_into(const Cache& cache, std::unique_ptr<Cache>& copy) override;
  void rewind(Cache& cache, int length) override;
  RunStatus run(std::span<const Row> rows, std::span<Cache* const> caches, Logits& logits) override;
  std::unique_ptr<Cache> find_prefix(const TokenView& tokens, int length) override;
  void share_prefix(Cache& cache, const TokenView& tokens, bool whole) override;
  int pin_prefix(std::span<const TokenId> tokens) override { return pages_.pin(tokens); }
  void find_continuation(std::span<const TokenId> tokens, size_t n, std::vector<TokenId>& found) override;
  CacheMemory cache_memory() const override { return pages_.memory(); }
  void limit_cache_memory(size_t bytes) override { budget_->set_limit(bytes); }
  std::vector<Tensor> contents(const Cache& cache) override;
  std::unique_ptr<Cache> restore(std::span<const TokenId> tokens, std::span<const Tensor> contents) override;
  std::vector<std::shared_ptr<const Source>> encode(std::span<const Tensor> inputs) override;
  SourceWork source_work() const override;
  double device_bandwidth_gb_per_s() override;
  ThreadPool* pool() override { return &pool_; }

 private:
  std::optional<native::CompiledModel> find_compiled(const NativeOptions& options, const Log& log);
  native::Stages stages_of(const NativeOptions& options, const std::optional<native::CompiledModel>& compiled) const;
  void keep_compiled(const NativeOptions& options, const native::Stages& stages, std::vector<native::PackedPlan> packed, const Log& log);
  void try_one_row();
  void check_files() const;
  void check_rows(std::span<const Row> rows, std::span<Cache* const> caches);
  void check_branch(std::span<const Row> rows, size_t first, std::span<Cache* const> caches);
  void add_branches(std::span<const Row> rows, std::span<Cache* const> caches);
  bool shares_prefixes() const { return traits_.can_rewind && !traits_.needs_source; }
  void drop_unseen(NativeCache& cache, int64_t n_certain) const;
  void prepare(std::span<Cache* const> caches);
  int64_t prepare_next(NativeCache& cache, int64_t end);
  bool is_beyond(int64_t length) const { return traits_.switch_after > 0 && length > traits_.switch_after; }

  analysis::Signature signature_;
  Traits traits_;
  std::shared_ptr<Recorder> recorder_;
  ThreadPool pool_;
  std::shared_ptr<native::SharedDevice> device_;  // null: the CPU
  std::unique_ptr<Runner> decoder_;
  std::shared_ptr<kv::Budget> budget_;
  native::CachePages pages_;
  int64_t window_ = 0;  // positions that the widest attention sees; 0: all
  std::vector<int64_t> register_bytes_;
  native::SourceStage sources_;

  mutable std::mutex mutex_;  // of what follows and of the runners: one call at a time
  std::vector<native::RunRow> rows_;
  std::vector<native::RunSequence> sequences_;
  std::vector<int64_t> tokens_;
  std::vector<int32_t> wanted_, n_candidates_;
  std::vector<int64_t> ends_;     // length of each sequence after the call
  std::vector<int64_t> certain_;  // of these, positions before the first that is only proposed
  std::vector<int32_t> branches_;
  std::vector<std::pair<int32_t, int32_t>> row_branches_;  // a row, and a sequence that branches off behind it

  native::CompiledKey key_;  // empty: the compile cache is off
  std::shared_ptr<const MappedFile> compiled_file_;
  std::jthread background_;  // writes into the compile cache or reads a file of it ahead; the last member, because it reads the others
};

NativeBackend::NativeBackend(analysis::Signature signature, const NativeOptions& options, const Log& log)
    : signature_(std::move(signature)), recorder_(options.recorder), pool_(n_threads_of(options), recorder_.get()) {
  const cpu::CpuKernels& kernels = kernels_of(options.isa);
  device_ = shared_device(options);
  std::optional<native::CompiledModel> compiled = find_compiled(options, log);
  const native::Stages stages = stages_of(options, compiled);
  std::vector<native::PackedPlan> packed;
  budget_ = std::make_shared<kv::Budget>(options.kv_bytes);
  const native::RunnerFactory make{.weights = options.weights,
                                   .quantizes_rows = options.quantizes_rows,
                                   .kv_format = kv_format_of(signature_, options, log),
                                   .kernels = &kernels,
                                   .pool = &pool_,
                                   .chooses_threads = options.n_threads <= 0,
                                   .log = log,
                                   .budget = budget_,
                                   .recorder = recorder_.get(),
                                   .compiled = compiled ? &*compiled : nullptr,
                                   .packed = compiled ? nullptr : &packed,
                                   .device = device_,
                                   .records_steps = options.records_steps,
                                   .runs_ahead = options.runs_ahead};
  decoder_ = make(stages.decoder);
  const Plan& plan = *stages.decoder;
  const kv::PageShape shape{decoder_->cache_bytes().page, native::kPagePositions, std::max(1, options.page_panels)};
  pages_ = native::CachePages(shape, budget_, decoder_->memory());
  window_ = widest_window(plan);
  if (const size_t page_bytes = shape.bytes(); options.kv_bytes > 0 && options.kv_bytes < page_bytes)
    throw Error(Code::kBadArgument, fmt::format("the KV cache is limited to {} bytes (kv_bytes, --kv-bytes), but one page needs {}",
                                                options.kv_bytes, page_bytes));
  for (const Plan::PlanRegister& r : plan.registers) register_bytes_.push_back(r.size * native::element_bytes(r.dtype));
  sources_ = native::SourceStage(signature_, stages, make, *decoder_, options.open_other);
  traits_ = traits_of(signature_, stages, options, make.kv_format);
  traits_.vocab = static_cast<int>(decoder_->output_size());
  traits_.exact_sources = sources_.is_native();
  if (traits_.needs_source) traits_.max_source_positions = sources_.max_positions(signature_);
  if (!traits_.unsupported_tokens.empty())
    log.info(fmt::format("token {} is the graph's padding token and would change positions; the native backend never generates it",
                         fmt::join(traits_.unsupported_tokens, ", ")));
  if (options.device != nullptr) {  // compiled files have weights for the CPU
    if (options.kv_bytes == 0) budget_->set_limit(options.device->free_bytes() / 10 * 9);
    try_one_row();
  } else if (compiled) {  // one row was tried before the file was written
    background_ = std::jthread([file = compiled->file](const std::stop_token& stop) { native::read_ahead(*file, stop); });
  } else {
    try_one_row();
    keep_compiled(options, stages, std::move(packed), log);
  }
  const std::string cpu = fmt::format("{} with {} thread{}", kernels.name, pool_.most_threads(), pool_.most_threads() == 1 ? "" : "s");
  log.info(fmt::format("native on {}", runs_on(options, stages, make.kv_format, cpu)));
}

std::optional<native::CompiledModel> NativeBackend::find_compiled(const NativeOptions& options, const Log& log) {
  if (options.stages != nullptr || options.compile_cache.folder.empty()) return std::nullopt;
  key_ = native::compiled_key(signature_, {options.context, options.no_fuse}, options.weights);
  std::optional<native::CompiledModel> compiled =
      native::find_compiled(options.compile_cache, key_, signature_, {options.context, options.no_fuse}, options.weights, log);
  if (compiled) compiled_file_ = compiled->file;
  return compiled;
}

native::Stages NativeBackend::stages_of(const NativeOptions& options, const std::optional<native::CompiledModel>& compiled) const {
  if (compiled) return compiled->stages;
  if (options.stages != nullptr) return *options.stages;
  native::Stages stages = native::take(native::compile_stages(signature_, {options.context, options.no_fuse}));
#ifdef __GLIBC__
  malloc_trim(0);  // tens of megabytes of the compiler's, before weights are packed
#endif
  return stages;
}

// In the background: the model can be used meanwhile, and its packed weights do not change.
void NativeBackend::keep_compiled(const NativeOptions& options, const native::Stages& stages, std::vector<native::PackedPlan> packed,
                                  const Log& log) {
  const CompileCache& cache = options.compile_cache;
  if (key_.text.empty() || !native::is_worth_keeping(cache, packed)) return;
  background_ = std::jthread([this, cache, log, saved = native::saved_plans(signature_, {options.context, options.no_fuse}, stages),
                              models = native::plan_models(signature_),
                              packed = std::move(packed)] { native::keep_compiled(cache, key_, saved, models, packed, log); });
}

// Computes one row, so that a model that cannot run fails here, while another backend can still be chosen.
void NativeBackend::try_one_row() {
  if (traits_.needs_source) return;
  Row row{0, 0, 0, true};
  while (std::binary_search(traits_.unsupported_tokens.begin(), traits_.unsupported_tokens.end(), row.token)) ++row.token;
  try {
    const std::unique_ptr<Cache> cache = new_cache(nullptr, 1);
    Cache* const caches[] = {cache.get()};
    Logits logits;
    if (run({&row, 1}, caches, logits) != RunStatus::kDone) throw Error(Code::kInternal, "not enough memory for one page of the cache");
  } catch (const Error& e) {
    if (!decoder_->memory()->is_host() && e.code() != Code::kUnsupported) throw;  // the device is at fault, not the plan
    throw Error(Code::kUnsupported, fmt::format("its plan fails on one token: {}", e.what()));
  }
}

std::unique_ptr<Cache> NativeBackend::new_cache(std::shared_ptr<const Source> source, int length) {
  if (traits_.needs_source != (source != nullptr)) {
    throw Error(Code::kBadArgument,
                traits_.needs_source ? "this model needs a source to start from; encode one first" : "this model does not take a source");
  }
  auto cache = std::make_unique<NativeCache>(pages_.store(), register_bytes_);
  cache->source = std::static_pointer_cast<const NativeSource>(source);
  cache->beyond = is_beyond(length);
  return cache;
}

bool NativeBackend::can_continue(const Cache& cache, int length) const {
  const auto& native_cache = static_cast<const NativeCache&>(cache);
  const int64_t first_seen = window_ > 0 ? std::max<int64_t>(0, native_cache.length() + 1 - window_) : 0;
  return native_cache.beyond == is_beyond(length) && native_cache.pages.first_kept() <= first_seen;
}

std::unique_ptr<Cache> NativeBackend::fork(const Cache& cache) {
  std::unique_ptr<Cache> copy;
  fork_into(cache, copy);
  return copy;
}

void NativeBackend::fork_into(const Cache& cache, std::unique_ptr<Cache>& copy) {
  const auto& origin = static_cast<const NativeCache&>(cache);
  if (copy == nullptr) copy = std::make_unique<NativeCache>(pages_.store(), register_bytes_);
  auto& fork = static_cast<NativeCache&>(*copy);
  fork.pages.fork_from(origin.pages);
  fork.n_shared_pages = origin.n_shared_pages;
  fork.registers.copy_from(origin.registers);
  fork.source = origin.source;
  fork.beyond = origin.beyond;
}

void NativeBackend::rewind(Cache& cache, int length) {
  auto& native_cache = static_cast<NativeCache&>(cache);
  if (length < 0 || length > native_cache.length())
    throw Error(Code::kBadArgument, fmt::format("cannot rewind to {} positions: the sequence has {}", length, native_cache.length()));
  if (length == native_cache.length()) return;
  if (!traits_.can_rewind && length > 0)
    throw Error(Code::kUnsupported, "this model keeps a recurrent state, which cannot be rewound; reset it instead");
  native_cache.pages.rewind(length);
  native_cache.n_shared_pages = std::min(native_cache.n_shared_pages, static_cast<size_t>(length / pages_.store()->shape().positions()));
  native_cache.registers.clear();
}

// Tables that are only looked up, small constants and the nodes of position tables stay in the mapped files.
void NativeBackend::check_files() const {
  for (const analysis::File& file : signature_.files) file.model->check_files_unchanged();
  if (compiled_file_ != nullptr) compiled_file_->check_unchanged();
}

void NativeBackend::check_rows(std::span<const Row> rows, std::span<Cache* const> caches) {
  ends_.clear(), certain_.assign(caches.size(), INT64_MAX);
  for (const Cache* cache : caches) ends_.push_back(cache->length());
  rows_.clear(), tokens_.clear(), wanted_.clear(), n_candidates_.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    if (row.sequence < 0 || row.sequence >= static_cast<int>(caches.size()))
      throw Error(Code::kInternal, "a row names a sequence that is not in the call");
    if (row.token < 0 || row.token >= traits_.vocab)
      throw Error(Code::kBadArgument, fmt::format("token id {} is outside the vocabulary of {}", row.token, traits_.vocab));
    if (std::binary_search(traits_.unsupported_tokens.begin(), traits_.unsupported_tokens.end(), row.token)) {
      throw Error(
          Code::kUnsupported,
          fmt::format("token id {} is the graph's padding token and changes positions; the native backend cannot run it; use --backend ort",
                      row.token));
    }
    int64_t& end = ends_[static_cast<size_t>(row.sequence)];
    const bool together = i == 0 || rows[i - 1].sequence == row.sequence || end == caches[static_cast<size_t>(row.sequence)]->length();
    if (row.after >= 0 && together) check_branch(rows, i, caches);
    if (row.position != end || !together) throw Error(Code::kInternal, "the rows of a sequence must be adjacent and continue its cache");
    ++end;
    if (row.proposed) {
      int64_t& certain = certain_[static_cast<size_t>(row.sequence)];
      certain = std::min<int64_t>(certain, row.after >= 0 ? caches[static_cast<size_t>(row.sequence)]->length() : row.position);
    }
    rows_.push_back({row.position, row.sequence, static_cast<const NativeCache&>(*caches[static_cast<size_t>(row.sequence)]).beyond});
    tokens_.push_back(row.token);
    if (!row.wants_logits) continue;
    wanted_.push_back(static_cast<int32_t>(i));
    n_candidates_.push_back(row.n_candidates);
  }
  for (size_t s = 0; s < caches.size(); ++s) {
    const int64_t end = ends_[s];
    if (is_beyond(end) && !static_cast<const NativeCache&>(*caches[s]).beyond)
      throw Error(Code::kInternal, "a cache cannot continue across the length switch");
    if (traits_.max_positions > 0 && end > traits_.max_positions)
      throw Error(Code::kTooLarge,
                  fmt::format("the context is full: {} positions were requested, the model has {}", end, traits_.max_positions));
  }
}

// The runner may start the next call early (Runner::runs_ahead). Prepares the page that it would write, if there is room for one, and
// returns how many positions are writable.
int64_t NativeBackend::prepare_next(NativeCache& cache, int64_t end) {
  if (end % pages_.store()->shape().positions() != 0) return end + 1;
  try {
    if (!pages_.make_room(1)) return end;
    cache.pages.prepare(end + 1);
    return end + 1;
  } catch (const Error&) { return end; }
}

void NativeBackend::prepare(std::span<Cache* const> caches) {
  pages_.prepare(caches, ends_, *decoder_, pool_);
  sequences_.clear();
  for (size_t s = 0; s < caches.size(); ++s) {
    auto& cache = static_cast<NativeCache&>(*caches[s]);
    cache.pending.copy_from(cache.registers);
    native::RunSequence sequence;
    sequence.n_keys = ends_[s];
    sequence.n_writable = decoder_->runs_ahead() ? prepare_next(cache, ends_[s]) : ends_[s];
    sequence.pages = cache.pages.panels();
    sequence.registers = cache.pending.addresses();
    if (cache.source != nullptr) {
      sequence.source_pages = cache.source->pages.panels();
      sequence.n_source = cache.source->n_positions();
    }
    sequences_.push_back(sequence);
  }
}

RunStatus NativeBackend::run(std::span<const Row> rows, std::span<Cache* const> caches, Logits& logits) {
  const std::lock_guard lock(mutex_);
  check_rows(rows, caches);
  add_branches(rows, caches);
  if (rows.empty()) {
    logits.resize(0, traits_.vocab);
    return RunStatus::kDone;
  }
  check_files();
  if (!pages_.make_room(caches, ends_)) return RunStatus::kNoMemory;
  decoder_->prepare(rows_);
  prepare(caches);
  native::RunCall call{rows_, sequences_, tokens_, {}, wanted_, nullptr, branches_};
  const auto n_wanted = static_cast<int>(wanted_.size());
  const std::shared_ptr<native::OutputRows> kept =
      decoder_->keep_output(n_candidates_, std::dynamic_pointer_cast<native::OutputRows>(logits.remote()));
  call.kept = kept.get();
  call.n_candidates = n_candidates_;
  if (kept == nullptr) {
    logits.resize(n_wanted, traits_.vocab);
    if (n_wanted > 0) call.output = logits.writable_row(0).data();
    call.output_stride = logits.stride();
  }
  if (decoder_->plan().embedding != native::kNoIndex) call.embeddings = sources_.embed(tokens_);
  decoder_->run(call);
  for (size_t s = 0; s < caches.size(); ++s) {
    auto& cache = static_cast<NativeCache&>(*caches[s]);
    cache.pages.commit(ends_[s]);
    drop_unseen(cache, std::min(certain_[s], ends_[s]));
    std::swap(cache.registers, cache.pending);
  }
  if (kept != nullptr) logits.set_remote(kept, n_wanted, traits_.vocab);
  return RunStatus::kDone;
}

double NativeBackend::device_bandwidth_gb_per_s() {
  if (device_ == nullptr) return 0;
  const std::scoped_lock lock(mutex_, device_->mutex);
  return device::copy_bandwidth_gb_per_s(*device_->device);
}

// The first row of a sequence that follows a row of another one: that path must begin where this cache ends.
void NativeBackend::check_branch(std::span<const Row> rows, size_t first, std::span<Cache* const> caches) {
  const Row& row = rows[first];
  if (!traits_.can_branch) throw Error(Code::kUnsupported, "this model cannot run several continuations of one row in one call");
  int64_t& end = ends_[static_cast<size_t>(row.sequence)];
  const int64_t length = caches[static_cast<size_t>(row.sequence)]->length();
  const bool earlier = static_cast<size_t>(row.after) < first && rows[static_cast<size_t>(row.after)].sequence != row.sequence;
  const Cache* origin = earlier ? caches[static_cast<size_t>(rows[static_cast<size_t>(row.after)].sequence)] : nullptr;
  if (end != length || origin == nullptr || origin->length() != length)
    throw Error(Code::kInternal, "a sequence must branch off an earlier row of a sequence with the same past");
  end = rows[static_cast<size_t>(row.after)].position + 1;
}

// Every row that a branch continues from writes its keys and values into the pages of the branch too.
void NativeBackend::add_branches(std::span<const Row> rows, std::span<Cache* const> caches) {
  branches_.clear();
  row_branches_.clear();
  for (const Row& row : rows) {
    const int64_t length = caches[static_cast<size_t>(row.sequence)]->length();
    for (int32_t from = row.after; from >= 0;) {
      row_branches_.emplace_back(from, row.sequence);
      const Row& ancestor = rows[static_cast<size_t>(from)];
      if (ancestor.position == length) break;
      from = ancestor.after >= 0 ? ancestor.after : from - 1;
    }
  }
  std::ranges::sort(row_branches_);
  for (const auto& [row, sequence] : row_branches_) {
    native::RunRow& run_row = rows_[static_cast<size_t>(row)];
    if (run_row.n_branches++ == 0) run_row.first_branch = static_cast<int32_t>(branches_.size());
    branches_.push_back(sequence);
  }
}

// Pages that no row after the first `n_certain` positions sees. A rewind beyond them computes their tokens again.
void NativeBackend::drop_unseen(NativeCache& cache, int64_t n_certain) const {
  if (window_ > 0) cache.pages.drop_before(n_certain + 1 - window_);
}

std::unique_ptr<Cache> NativeBackend::find_prefix(const TokenView& tokens, int length) {
  if (!shares_prefixes() || is_beyond(length)) return nullptr;
  std::unique_ptr<Cache> cache = new_cache(nullptr, length);
  pages_.find(tokens, static_cast<NativeCache&>(*cache));
  return cache->length() > 0 ? std::move(cache) : nullptr;
}

void NativeBackend::share_prefix(Cache& cache, const TokenView& tokens, bool whole) {
  auto& native_cache = static_cast<NativeCache&>(cache);
  if (shares_prefixes() && !native_cache.beyond) pages_.share(native_cache, tokens, whole);
}

void NativeBackend::find_continuation(std::span<const TokenId> tokens, size_t n, std::vector<TokenId>& found) {
  pages_.continuation(tokens, n, found);
}

// Pages, one tensor each, then the registers.
std::vector<Tensor> NativeBackend::contents(const Cache& cache) {
  const auto& native_cache = static_cast<const NativeCache&>(cache);
  if (native_cache.source != nullptr) throw Error(Code::kUnsupported, "the cache of a decoder that reads a source cannot be saved");
  const size_t panel_bytes = pages_.store()->shape().panel_bytes;
  kv::PageMemory& memory = pages_.store()->memory();
  const auto copy_of = [&](kv::PageAddress panel) {
    const auto n_bytes = static_cast<int64_t>(panel_bytes);
    if (memory.is_host()) return Tensor::view(DType::kU8, {n_bytes}, panel, nullptr);
    Tensor copy(DType::kU8, {n_bytes});
    memory.read(copy.mutable_bytes(), panel);
    return copy;
  };
  std::vector<Tensor> contents;
  const int n_positions = native_cache.length();
  const int n_pages = (n_positions + native::kPagePositions - 1) / native::kPagePositions;
  for (int i = 0; i < n_pages; ++i) {
    const kv::PageAddress panel = native_cache.pages.panels()[i];
    contents.push_back(panel == nullptr ? Tensor(DType::kU8, {0}) : copy_of(panel));
  }
  if (n_positions % native::kPagePositions != 0)  // the rest of the last page may contain data of another session
    decoder_->clear_positions(contents.back().mutable_bytes().data(), n_positions % native::kPagePositions);
  if (const size_t n_bytes = native_cache.registers.size_bytes(); n_bytes > 0) {
    contents.emplace_back(DType::kU8, Dims{static_cast<int64_t>(n_bytes)});
    native_cache.registers.read(contents.back().mutable_bytes());
  }
  return contents;
}

std::unique_ptr<Cache> NativeBackend::restore(std::span<const TokenId> tokens, std::span<const Tensor> contents) {
  std::unique_ptr<Cache> cache = new_cache(nullptr, static_cast<int>(tokens.size()));
  auto& native_cache = static_cast<NativeCache&>(*cache);
  const size_t n_pages = (tokens.size() + native::kPagePositions - 1) / native::kPagePositions;
  const size_t register_bytes = native_cache.registers.size_bytes();
  const kv::PageShape& shape = pages_.store()->shape();
  // Whole pages that a window has dropped are empty.
  const int64_t n_unseen = window_ > 0 ? std::max<int64_t>(0, static_cast<int64_t>(tokens.size()) + 1 - window_) : 0;
  const auto n_dropped = static_cast<size_t>(n_unseen / shape.positions() * shape.n_panels);
  bool fits = contents.size() == n_pages + (register_bytes == 0 ? 0 : 1);
  for (size_t i = 0; fits && i < contents.size(); ++i) {
    const size_t size_bytes = contents[i].size_bytes();
    fits = size_bytes == (i < n_pages ? shape.panel_bytes : register_bytes) || (i < n_dropped && size_bytes == 0);
  }
  if (!fits) throw Error(Code::kBadArgument, "the saved cache does not have the pages that this model keeps for its tokens");
  const std::lock_guard lock(mutex_);  // so that no run takes the room
  if (!pages_.make_room(static_cast<int64_t>(tokens.size())))
    throw Error(Code::kTooLarge,
                fmt::format("the saved cache has {} tokens; they do not fit into the {} bytes of the KV cache (kv_bytes, --kv-bytes)",
                            tokens.size(), pages_.memory().limit_bytes));
  native_cache.pages.prepare(static_cast<int64_t>(tokens.size()));
  for (size_t i = 0; i < contents.size(); ++i) {
    const std::span<const std::byte> bytes = contents[i].bytes();
    if (i < n_pages) pages_.store()->memory().write(native_cache.pages.panels()[i], bytes);
    if (i >= n_pages) native_cache.registers.write(bytes);
  }
  native_cache.pages.commit(static_cast<int64_t>(tokens.size()));
  drop_unseen(native_cache, native_cache.length());
  return cache;
}

std::vector<std::shared_ptr<const Source>> NativeBackend::encode(std::span<const Tensor> inputs) {
  const std::lock_guard lock(mutex_);
  check_files();
  return sources_.encode(inputs);
}

SourceWork NativeBackend::source_work() const {
  const std::lock_guard lock(mutex_);
  return sources_.work();
}

}  // namespace

std::unique_ptr<Backend> make_native_backend(analysis::Signature signature, const NativeOptions& options, const Log& log) {
  return std::make_unique<NativeBackend>(std::move(signature), options, log);
}

}  // namespace kvik::backend

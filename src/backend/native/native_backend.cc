#include "backend/native/native_backend.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mutex>
#include <thread>

#include "backend/native/execute/execute.h"
#include "backend/native/graph/outcome.h"
#include "backend/native/native_cache.h"
#include "backend/native/report.h"
#include "backend/native/source_stage.h"
#include "backend/native/stages.h"
#include "kvik/error.h"

namespace kvik::backend {
namespace {

using native::Plan;
using native::Runner;

constexpr int64_t kChunkBytes = int64_t{32} << 20;  // of the values of one call

int n_threads_of(const NativeOptions& options) {
  if (options.n_threads > 0) return options.n_threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

const cpu::CpuKernels& kernels_of(const std::string& isa) {
  if (isa.empty() || isa == "auto") return cpu::fastest();
  if (const cpu::CpuKernels* kernels = cpu::by_name(isa)) return *kernels;
  std::string names;
  for (const cpu::CpuKernels* kernels : cpu::available()) names += (names.empty() ? "" : ", ") + std::string(kernels->name);
  throw Error(Code::kBadArgument, fmt::format("this machine has no kernels called '{}'; it has {}", isa, names));
}

int smaller_limit(int64_t a, int64_t b) {
  const int64_t limit = a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
  return static_cast<int>(std::min<int64_t>(limit, 1 << 30));
}

// What the bits of a cache depend on beside the model; neither threads nor instruction sets are among it.
std::string cache_form(const NativeOptions& options, cpu::KvFormat kv) {
  static constexpr const char* kWeights[] = {"as stored", "f32", "f16", "q8", "q4"};
  static constexpr const char* kFormats[] = {"f32", "f16", "q8"};
  std::string form =
      fmt::format("native pages, cache {}, weights {}", kFormats[static_cast<size_t>(kv)], kWeights[static_cast<size_t>(options.weights)]);
  if (!options.no_fuse.empty()) form += fmt::format(", without fusing {}", fmt::join(options.no_fuse, ", "));
  return form;
}

// What the plans keep and read, in figures.
void count_bytes(const native::Stages& stages, const NativeOptions& options, cpu::KvFormat kv, Traits& traits) {
  for (const std::shared_ptr<const Plan>& plan : {stages.decoder, stages.encoder, stages.embedding}) {
    if (plan == nullptr) continue;
    const native::PlanReport report = native::report(*plan, options.weights, kv);
    for (const auto& [format, bytes] : report.weights) traits.weights_bytes += static_cast<size_t>(bytes);
    if (plan != stages.decoder) continue;
    traits.weights_bytes_per_token = static_cast<size_t>(report.bytes_per_token);
    traits.cache_bytes_per_token = static_cast<size_t>(report.kv_bytes_per_token);
  }
}

class NativeBackend final : public Backend {
 public:
  NativeBackend(analysis::Signature signature, const NativeOptions& options, const Log& log);

  const Traits& traits() const override { return traits_; }
  int preferred_chunk() const override;
  std::unique_ptr<Cache> new_cache(std::shared_ptr<const Source> source, int length) override;
  bool can_continue(const Cache& cache, int length) const override;
  std::unique_ptr<Cache> fork(const Cache& cache) override;
  void rewind(Cache& cache, int length) override;
  void run(std::span<const Row> rows, std::span<Cache* const> caches, Logits& logits) override;
  std::vector<Tensor> contents(const Cache& cache) override;
  std::unique_ptr<Cache> restore(std::span<const TokenId> tokens, std::span<const Tensor> contents) override;
  std::vector<std::shared_ptr<const Source>> encode(std::span<const Tensor> inputs) override;
  SourceWork source_work() const override;

 private:
  void try_one_row();
  void check_rows(std::span<const Row> rows, std::span<Cache* const> caches);
  void prepare(std::span<Cache* const> caches);
  bool is_beyond(int64_t length) const { return traits_.switch_after > 0 && length > traits_.switch_after; }

  analysis::Signature signature_;
  Traits traits_;
  ThreadPool pool_;
  std::unique_ptr<Runner> decoder_;
  std::shared_ptr<kv::PageStore> store_;
  std::vector<int64_t> register_bytes_;
  native::SourceStage sources_;
  std::vector<TokenId> unsupported_tokens_;  // sorted

  mutable std::mutex mutex_;  // of what follows and of the runners: one call at a time
  std::vector<native::RunRow> rows_;
  std::vector<native::RunSequence> sequences_;
  std::vector<int64_t> tokens_;
  std::vector<int32_t> wanted_;
  std::vector<int64_t> ends_;  // length of each sequence after the call
};

NativeBackend::NativeBackend(analysis::Signature signature, const NativeOptions& options, const Log& log)
    : signature_(std::move(signature)), pool_(n_threads_of(options)) {
  const native::Stages stages =
      options.stages != nullptr ? *options.stages : native::take(native::compile_stages(signature_, {options.context, options.no_fuse}));
  const cpu::CpuKernels& kernels = kernels_of(options.isa);
  const native::RunnerFactory make{options.weights, native::kv_format_of(signature_, options.kv), &kernels, &pool_, log};
  decoder_ = make(stages.decoder);
  const Plan& plan = *stages.decoder;
  store_ = std::make_shared<kv::PageStore>(static_cast<size_t>(std::max<int64_t>(64, decoder_->layouts().page_bytes)), cpu::kPagePositions);
  for (const Plan::PlanRegister& r : plan.registers) register_bytes_.push_back(r.size * native::element_bytes(r.dtype));
  sources_ = native::SourceStage(signature_, stages, make, *decoder_, options.open_other);
  unsupported_tokens_ = plan.unsupported_tokens;
  std::sort(unsupported_tokens_.begin(), unsupported_tokens_.end());
  if (!unsupported_tokens_.empty())
    log.info(fmt::format("token {} means padding to this graph and changes its positions; natively it is never generated",
                         fmt::join(unsupported_tokens_, ", ")));

  traits_.switch_after = plan.switch_after;
  traits_.name = "native";
  traits_.device = "cpu";
  traits_.exact = true;
  traits_.exact_sources = sources_.is_native();
  traits_.unsupported_tokens = unsupported_tokens_;
  traits_.can_rewind = plan.registers.empty();
  traits_.needs_source = signature_.kind == analysis::Kind::kEncoderDecoder;
  traits_.vocab = static_cast<int>(decoder_->output_size());
  traits_.max_positions = smaller_limit(signature_.max_positions.value_or(0), plan.max_positions.value_or(0));
  if (traits_.needs_source) traits_.max_source_positions = sources_.max_positions(signature_);
  traits_.cache_form = cache_form(options, make.kv_format);
  count_bytes(stages, options, make.kv_format, traits_);
  try_one_row();
  log.info(fmt::format("native on {} with {} thread{}", kernels.name, pool_.n_threads(), pool_.n_threads() == 1 ? "" : "s"));
}

// Whatever fails on the first row of all fails here, while another backend can still be taken.
void NativeBackend::try_one_row() {
  if (traits_.needs_source) return;
  Row row{0, 0, 0, true};
  while (std::binary_search(unsupported_tokens_.begin(), unsupported_tokens_.end(), row.token)) ++row.token;
  try {
    const std::unique_ptr<Cache> cache = new_cache(nullptr, 1);
    Cache* const caches[] = {cache.get()};
    Logits logits;
    run({&row, 1}, caches, logits);
  } catch (const Error& e) { throw Error(Code::kUnsupported, fmt::format("its plan fails on one token: {}", e.what())); }
}

int NativeBackend::preferred_chunk() const {
  return static_cast<int>(std::clamp<int64_t>(kChunkBytes / std::max<int64_t>(1, decoder_->bytes_per_row()), 16, 512));
}

std::unique_ptr<Cache> NativeBackend::new_cache(std::shared_ptr<const Source> source, int length) {
  if (traits_.needs_source != (source != nullptr)) {
    throw Error(Code::kBadArgument,
                traits_.needs_source ? "this model needs a source to start from; encode one first" : "this model takes no source");
  }
  auto cache = std::make_unique<NativeCache>(store_, register_bytes_);
  cache->source = std::static_pointer_cast<const NativeSource>(source);
  cache->beyond = is_beyond(length);
  return cache;
}

bool NativeBackend::can_continue(const Cache& cache, int length) const {
  return static_cast<const NativeCache&>(cache).beyond == is_beyond(length);
}

std::unique_ptr<Cache> NativeBackend::fork(const Cache& cache) {
  const auto& origin = static_cast<const NativeCache&>(cache);
  auto copy = std::make_unique<NativeCache>(store_, register_bytes_);
  copy->pages.fork_from(origin.pages);
  copy->registers.copy_from(origin.registers);
  copy->source = origin.source;
  copy->beyond = origin.beyond;
  return copy;
}

void NativeBackend::rewind(Cache& cache, int length) {
  auto& native_cache = static_cast<NativeCache&>(cache);
  if (length < 0 || length > native_cache.length())
    throw Error(Code::kBadArgument, fmt::format("cannot rewind to {} positions: the sequence has {}", length, native_cache.length()));
  if (length == native_cache.length()) return;
  if (!traits_.can_rewind && length > 0)
    throw Error(Code::kUnsupported, "this model keeps a recurrent state, which cannot be rewound; reset it instead");
  native_cache.pages.rewind(length);
  native_cache.registers.clear();
}

void NativeBackend::check_rows(std::span<const Row> rows, std::span<Cache* const> caches) {
  ends_.clear();
  for (const Cache* cache : caches) ends_.push_back(cache->length());
  rows_.clear(), tokens_.clear(), wanted_.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    if (row.sequence < 0 || row.sequence >= static_cast<int>(caches.size()))
      throw Error(Code::kInternal, "a row names a sequence that is not in the call");
    if (row.token < 0 || row.token >= traits_.vocab)
      throw Error(Code::kBadArgument, fmt::format("token id {} is outside the vocabulary of {}", row.token, traits_.vocab));
    if (std::binary_search(unsupported_tokens_.begin(), unsupported_tokens_.end(), row.token)) {
      throw Error(Code::kUnsupported, fmt::format("token id {} means padding to this graph and changes its positions; the native backend "
                                                  "cannot run it, use --backend ort",
                                                  row.token));
    }
    int64_t& end = ends_[static_cast<size_t>(row.sequence)];
    const bool together = i == 0 || rows[i - 1].sequence == row.sequence || end == caches[static_cast<size_t>(row.sequence)]->length();
    if (row.position != end || !together) throw Error(Code::kInternal, "the rows of a sequence must stand together and continue its cache");
    ++end;
    rows_.push_back({row.position, row.sequence, static_cast<const NativeCache&>(*caches[static_cast<size_t>(row.sequence)]).beyond});
    tokens_.push_back(row.token);
    if (row.wants_logits) wanted_.push_back(static_cast<int32_t>(i));
  }
  for (size_t s = 0; s < caches.size(); ++s) {
    const int64_t end = ends_[s];
    if (is_beyond(end) && !static_cast<const NativeCache&>(*caches[s]).beyond)
      throw Error(Code::kInternal, "a cache cannot continue across the length switch");
    if (traits_.max_positions > 0 && end > traits_.max_positions)
      throw Error(Code::kTooLarge,
                  fmt::format("the context is full: {} positions were asked for, the model has {}", end, traits_.max_positions));
  }
}

void NativeBackend::prepare(std::span<Cache* const> caches) {
  sequences_.clear();
  for (size_t s = 0; s < caches.size(); ++s) {
    auto& cache = static_cast<NativeCache&>(*caches[s]);
    cache.pages.prepare(ends_[s]);
    cache.pending.copy_from(cache.registers);
    native::RunSequence sequence;
    sequence.pages = cache.pages.pages();
    sequence.n_keys = ends_[s];
    sequence.registers = cache.pending.addresses();
    if (cache.source != nullptr) {
      sequence.source_pages = cache.source->pages.pages();
      sequence.n_source = cache.source->n_positions();
    }
    sequences_.push_back(sequence);
  }
}

void NativeBackend::run(std::span<const Row> rows, std::span<Cache* const> caches, Logits& logits) {
  const std::lock_guard lock(mutex_);
  check_rows(rows, caches);
  logits.resize(static_cast<int>(wanted_.size()), traits_.vocab);
  if (rows.empty()) return;
  decoder_->prepare(rows_);
  prepare(caches);
  native::RunCall call{rows_, sequences_, tokens_, {}, wanted_, wanted_.empty() ? nullptr : logits.row(0).data()};
  if (decoder_->plan().embedding != native::kNoIndex) call.embeddings = sources_.embed(tokens_);
  decoder_->run(call);
  for (size_t s = 0; s < caches.size(); ++s) {
    auto& cache = static_cast<NativeCache&>(*caches[s]);
    cache.pages.commit(ends_[s]);
    std::swap(cache.registers, cache.pending);
  }
}

// Pages, one tensor each, then the registers.
std::vector<Tensor> NativeBackend::contents(const Cache& cache) {
  const auto& native_cache = static_cast<const NativeCache&>(cache);
  if (native_cache.source != nullptr) throw Error(Code::kUnsupported, "the cache of a decoder that reads a source cannot be saved");
  const auto bytes_at = [](const std::byte* data, size_t size_bytes) {
    return Tensor::view(DType::kU8, {static_cast<int64_t>(size_bytes)}, data, nullptr);
  };
  std::vector<Tensor> contents;
  const int n_positions = native_cache.length();
  const int n_pages = (n_positions + cpu::kPagePositions - 1) / cpu::kPagePositions;
  for (int i = 0; i < n_pages; ++i) contents.push_back(bytes_at(native_cache.pages.pages()[i], store_->page_bytes()));
  if (n_positions % cpu::kPagePositions != 0) {  // what others once kept in the rest of the last page is nobody's business
    std::byte* page = contents.back().mutable_bytes().data();
    for (const cpu::Attention& attention : decoder_->layouts().of_attend)
      cpu::clear_positions(attention.layout, page + attention.page_offset, n_positions % cpu::kPagePositions);
  }
  const std::span<const std::byte> registers = native_cache.registers.bytes();
  if (!registers.empty()) contents.push_back(bytes_at(registers.data(), registers.size()));
  return contents;
}

std::unique_ptr<Cache> NativeBackend::restore(std::span<const TokenId> tokens, std::span<const Tensor> contents) {
  std::unique_ptr<Cache> cache = new_cache(nullptr, static_cast<int>(tokens.size()));
  auto& native_cache = static_cast<NativeCache&>(*cache);
  const size_t n_pages = (tokens.size() + cpu::kPagePositions - 1) / cpu::kPagePositions;
  const std::span<std::byte> registers = native_cache.registers.bytes();
  bool fits = contents.size() == n_pages + (registers.empty() ? 0 : 1);
  for (size_t i = 0; fits && i < contents.size(); ++i)
    fits = contents[i].size_bytes() == (i < n_pages ? store_->page_bytes() : registers.size());
  if (!fits) throw Error(Code::kBadArgument, "the saved cache does not have the pages that this model keeps for its tokens");
  native_cache.pages.prepare(static_cast<int64_t>(tokens.size()));
  for (size_t i = 0; i < contents.size(); ++i) {
    const std::span<const std::byte> bytes = contents[i].bytes();
    std::copy(bytes.begin(), bytes.end(), i < n_pages ? native_cache.pages.pages()[i] : registers.data());
  }
  native_cache.pages.commit(static_cast<int64_t>(tokens.size()));
  return cache;
}

std::vector<std::shared_ptr<const Source>> NativeBackend::encode(std::span<const Tensor> inputs) {
  const std::lock_guard lock(mutex_);
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

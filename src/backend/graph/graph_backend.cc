#include "backend/graph/graph_backend.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <tuple>

#include "backend/graph/convert.h"
#include "kvik/error.h"

namespace kvik::backend {
namespace {

// Two runs of one graph agree if their logits differ by at most this share of the logits' spread. Dynamic int8 graphs, whose activation
// scale depends on the number of rows, stay below 0.1; a missing causal mask is far above 0.5.
constexpr double kSameGraph = 0.25;
constexpr double kSureOfCount = 0.05;                // the same if the number of elements of an input is unclear
constexpr int64_t kLogitsBytes = int64_t{64} << 20;  // per call, if the graph outputs logits for every token

const GraphCache& as_graph_cache(const Cache& cache) { return static_cast<const GraphCache&>(cache); }

double spread_of(std::span<const float> logits) {
  double sum = 0, squares = 0;
  for (const float value : logits) sum += value, squares += static_cast<double>(value) * value;
  const double mean = sum / static_cast<double>(logits.size());
  return std::sqrt(std::max(0.0, squares / static_cast<double>(logits.size()) - mean * mean));
}

}  // namespace

size_t GraphCache::size_bytes() const {
  if (group == nullptr) return 0;
  size_t bytes = 0;
  for (const ValuePtr& state : group->states) {
    int64_t n = 1;
    for (const int64_t dim : state->dims()) n *= dim;
    bytes += storage_bytes(state->dtype(), n);
  }
  return bytes / static_cast<size_t>(group->n_sequences);
}

// Working state of a call; the caches themselves change only at its end.
struct GraphBackend::Call {
  std::span<const Row> rows;
  Logits& logits;
  std::vector<GraphCache> after;  // per sequence
  std::vector<int> first_row;     // per sequence, in `rows`
  std::vector<int> n_rows;        // per sequence
  std::vector<int> logits_row;    // per row; -1: no logits wanted

  size_t row_index(int sequence, int i) const {
    return static_cast<size_t>(first_row[static_cast<size_t>(sequence)]) + static_cast<size_t>(i);
  }

  bool wants_before_last(const std::vector<int>& sequences) const {
    for (const int s : sequences) {
      for (int i = 0; i + 1 < n_rows[static_cast<size_t>(s)]; ++i) {
        if (logits_row[row_index(s, i)] >= 0) return true;
      }
    }
    return false;
  }
};

// Some rows of each sequence of a batch; `first` is an index within the call.
struct GraphBackend::Stretch {
  int first = 0;
  int n_rows = 0;
  bool inner_logits = false;  // of rows before the last
};

GraphBackend::GraphBackend(analysis::Signature signature, Traits traits, const StepRunner::OpenFile& open)
    : signature_(std::move(signature)), traits_(std::move(traits)), runner_(signature_, open) {
  traits_.cache_form = "states of the graph";
  traits_.switches_per_run = traits_.switch_after > 0;
  traits_.vocab = static_cast<int>(signature_.vocab.value_or(0));
  if (traits_.vocab <= 0)
    throw Error(Code::kBadModel,
                fmt::format("{}: the vocabulary size is neither in the graph nor in its config files", signature_.folder.string()));
  traits_.max_positions = static_cast<int>(std::min<int64_t>(signature_.max_positions.value_or(0), 1 << 30));
  batches_ = runner_.takes_batches();
  for (const Slot& slot : runner_.slots().self) {
    if (slot.layout.window) {
      window_ = window_ == 0 ? slot.layout.capacity : std::min(window_, slot.layout.capacity);
    } else if (slot.layout.growth == analysis::Growth::kFixed && slot.layout.capacity > 0) {
      const auto capacity = static_cast<int>(slot.layout.capacity);
      traits_.max_positions = traits_.max_positions == 0 ? capacity : std::min(traits_.max_positions, capacity);
    }
    if (slot.layout.growth == analysis::Growth::kRecurrent) traits_.can_rewind = false;
  }
  traits_.needs_source = signature_.kind == analysis::Kind::kEncoderDecoder;
  traits_.max_source_positions = static_cast<int>(std::min<int64_t>(signature_.max_source_positions.value_or(0), 1 << 30));
}

int GraphBackend::preferred_chunk() const {
  if (runner_.keeps_last_logits_only()) return 512;
  return static_cast<int>(std::clamp<int64_t>(kLogitsBytes / (int64_t{4} * traits_.vocab), 16, 512));
}

std::unique_ptr<Cache> GraphBackend::new_cache(std::shared_ptr<const Source> source, int /*length*/) {
  if (traits_.needs_source != (source != nullptr)) {
    throw Error(Code::kBadArgument,
                traits_.needs_source ? "this model needs a source; encode one first" : "this model does not take a source");
  }
  auto cache = std::make_unique<GraphCache>();
  cache->source = std::static_pointer_cast<const GraphSource>(source);
  return cache;
}

std::unique_ptr<Cache> GraphBackend::fork(const Cache& cache) { return std::make_unique<GraphCache>(as_graph_cache(cache)); }

void GraphBackend::rewind(Cache& cache, int length) {
  auto& graph_cache = static_cast<GraphCache&>(cache);
  if (length < 0 || length > graph_cache.n_positions) {
    throw Error(Code::kBadArgument, fmt::format("cannot rewind to {} positions: the sequence has {}", length, graph_cache.n_positions));
  }
  if (length == graph_cache.n_positions) return;
  if (!traits_.can_rewind && length > 0)
    throw Error(Code::kUnsupported, "this model has a recurrent state, which cannot be rewound; reset it instead");
  graph_cache.n_positions = length;
  if (!graph_cache.tokens.empty()) graph_cache.tokens.resize(static_cast<size_t>(length));
  if (length == 0) graph_cache.group = nullptr;
}

std::vector<Tensor> GraphBackend::contents(const Cache& cache) {
  const GraphCache& graph_cache = as_graph_cache(cache);
  if (graph_cache.source != nullptr) throw Error(Code::kUnsupported, "the cache of a decoder that reads a source cannot be saved");
  return runner_.states_of(graph_cache);
}

std::unique_ptr<Cache> GraphBackend::restore(std::span<const TokenId> tokens, std::span<const Tensor> contents) {
  std::unique_ptr<Cache> cache = new_cache(nullptr, static_cast<int>(tokens.size()));
  auto& graph_cache = static_cast<GraphCache&>(*cache);
  if (tokens.empty()) return cache;
  graph_cache.n_positions = static_cast<int>(tokens.size());
  graph_cache.group = runner_.group_of(contents, graph_cache.n_positions);
  if (!runner_.has_cache()) graph_cache.tokens.assign(tokens.begin(), tokens.end());
  return cache;
}

bool GraphBackend::can_continue(const Cache& cache, int length) const {
  const GraphCache& graph_cache = as_graph_cache(cache);
  if (!runner_.has_cache() || graph_cache.group == nullptr) return true;
  const int computed = graph_cache.group->length;
  if (is_beyond(computed) != is_beyond(length)) return false;
  return window_ == 0 || graph_cache.n_positions == computed || computed <= window_;
}

RunStatus GraphBackend::run(std::span<const Row> rows, std::span<Cache* const> caches, Logits& logits) {
  Call call{rows, logits, {}, std::vector<int>(caches.size(), -1), std::vector<int>(caches.size(), 0), {}};
  for (const Cache* cache : caches) call.after.push_back(as_graph_cache(*cache));
  int n_logits = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    const Row& row = rows[r];
    if (row.sequence < 0 || row.sequence >= static_cast<int>(caches.size()))
      throw Error(Code::kInternal, "a row names a sequence that is not in the call");
    const auto s = static_cast<size_t>(row.sequence);
    if (row.token < 0 || row.token >= traits_.vocab)
      throw Error(Code::kBadArgument, fmt::format("token id {} is outside the vocabulary of {}", row.token, traits_.vocab));
    if (call.first_row[s] < 0) call.first_row[s] = static_cast<int>(r);
    const bool in_place =
        static_cast<int>(r) == call.first_row[s] + call.n_rows[s] && row.position == call.after[s].n_positions + call.n_rows[s];
    if (!in_place) throw Error(Code::kInternal, "the rows of a sequence must be adjacent and continue its cache");
    ++call.n_rows[s];
    call.logits_row.push_back(row.wants_logits ? n_logits++ : -1);
  }
  for (size_t s = 0; s < caches.size(); ++s) {
    const int length = call.after[s].n_positions + call.n_rows[s];
    if (traits_.max_positions > 0 && length > traits_.max_positions) {
      throw Error(Code::kTooLarge,
                  fmt::format("the context is full: {} positions were requested, the model has {}", length, traits_.max_positions));
    }
    if (call.n_rows[s] > 0 && !can_continue(call.after[s], length))
      throw Error(Code::kInternal, "a cache cannot continue across the length switch or after its window was rewound");
  }
  logits.resize(n_logits, traits_.vocab);

  // What the sequences of a batch have in common: past length, number of new tokens and, if sources cannot be padded, their length.
  std::map<std::tuple<int, int, int>, std::vector<int>> batches;
  for (size_t s = 0; s < caches.size(); ++s) {
    if (call.n_rows[s] == 0) continue;
    const GraphCache& cache = call.after[s];
    const int source = cache.source != nullptr && !runner_.pads_sources() ? cache.source->n_positions() : 0;
    batches[{cache.n_positions, call.n_rows[s], source}].push_back(static_cast<int>(s));
  }
  for (const auto& [shape, sequences] : batches) run_batch(call, sequences);
  for (size_t s = 0; s < caches.size(); ++s) static_cast<GraphCache&>(*caches[s]) = std::move(call.after[s]);
  return RunStatus::kDone;
}

void GraphBackend::run_batch(Call& call, const std::vector<int>& sequences) {
  if (sequences.size() == 1) return run_together(call, sequences);
  if (batches_) {
    const std::vector<GraphCache> before = call.after;
    try {
      return run_together(call, sequences);
    } catch (const Error&) { call.after = before; }
  }
  // Some graphs with a symbolic batch axis fail with more than one sequence. If the members run alone, no more batches are tried.
  for (const int s : sequences) run_together(call, {s});
  batches_ = false;
}

void GraphBackend::run_together(Call& call, const std::vector<int>& sequences) {
  const int n_rows = call.n_rows[static_cast<size_t>(sequences.front())];
  const int n_past = call.after[static_cast<size_t>(sequences.front())].n_positions;
  const bool inner_logits = call.wants_before_last(sequences);
  const SourcePtr& source = call.after[static_cast<size_t>(sequences.front())].source;
  const bool unsure = runner_.has_cache() && (n_past > 0 || runner_.must_try_several());
  const bool one_by_one =
      n_rows > 1 && ((inner_logits && !gives_all_) || runner_.takes_single_tokens() || (unsure && !takes_several(source, n_past == 0)));
  if (one_by_one) {
    for (int done = 0; done < n_rows; ++done) run_stretch(call, sequences, {done, 1, false});
    return;
  }
  const std::vector<GraphCache> before = call.after;
  if (run_stretch(call, sequences, {0, n_rows, inner_logits})) return;
  gives_all_ = false;
  call.after = before;
  run_together(call, sequences);
}

bool GraphBackend::run_stretch(Call& call, const std::vector<int>& sequences, const Stretch& stretch) {
  const bool from_start = !runner_.has_cache();
  const int n_past = call.after[static_cast<size_t>(sequences.front())].n_positions;
  Batch batch;
  std::vector<TokenId> tokens;
  for (const int s : sequences) {
    const GraphCache& cache = call.after[static_cast<size_t>(s)];
    batch.caches.push_back(&cache);
    if (from_start) tokens.insert(tokens.end(), cache.tokens.begin(), cache.tokens.end());
    for (int i = 0; i < stretch.n_rows; ++i) tokens.push_back(call.rows[call.row_index(s, stretch.first + i)].token);
  }
  const int n_run = from_start ? n_past + stretch.n_rows : stretch.n_rows;
  batch.shape = {static_cast<int64_t>(sequences.size()), from_start ? 0 : n_past, n_run, !stretch.inner_logits, one_position_};
  const StepResult result = runner_.run(batch, tokens);

  const int64_t vocab = result.logits.rank() > 0 ? result.logits.dim(-1) : 0;
  if (vocab < traits_.vocab || result.logits.size() % (vocab * batch.shape.n_sequences) != 0) {
    throw Error(Code::kBadModel,
                fmt::format("the logits have shape {}; expected rows of {}", to_string(result.logits.dims()), traits_.vocab));
  }
  const auto n_given = static_cast<int>(result.logits.size() / (vocab * batch.shape.n_sequences));
  if (n_given < stretch.n_rows && stretch.inner_logits) return false;

  for (size_t i = 0; i < sequences.size(); ++i) {
    for (int r = 0; r < stretch.n_rows; ++r) {
      const int target = call.logits_row[call.row_index(sequences[i], stretch.first + r)];
      if (target < 0) continue;
      const int64_t given = static_cast<int64_t>(i) * n_given + n_given - stretch.n_rows + r;
      copy_floats(result.logits, given * vocab, call.logits.writable_row(target));
    }
    GraphCache& cache = call.after[static_cast<size_t>(sequences[i])];
    cache.group = result.group;
    cache.row = static_cast<int>(i);
    cache.n_positions = n_past + stretch.n_rows;
    if (!from_start) continue;
    const auto mine = tokens.begin() + static_cast<ptrdiff_t>(i) * n_run;
    cache.tokens.assign(mine, mine + n_run);
  }
  return true;
}

bool GraphBackend::takes_several(const SourcePtr& source, bool at_start) {
  const std::lock_guard lock(probe_mutex_);
  std::optional<bool>& known = at_start ? several_at_start_ : several_later_;
  if (!known) known = try_several(source, at_start);
  return *known;
}

// Some files are correct only for one new token but report no error for several: earlier rows see later ones, or positions are wrong. So a
// few tokens are tried once, all in one run and one by one; the latter is correct for either meaning of an input's number of elements.
bool GraphBackend::try_several(const SourcePtr& source, bool at_start) {
  const auto difference = [&](bool one_position) {
    try {
      return probe_several(source, at_start ? 0 : 1, one_position);
    } catch (const Error&) {
      return std::numeric_limits<double>::infinity();  // a graph for one token at a time may reject several
    }
  };
  if (!runner_.must_try_several()) return difference(false) <= kSameGraph;
  const double as_list = difference(false), as_one = difference(true);
  const bool one_position = as_one < as_list;
  if (std::min(as_list, as_one) > kSureOfCount) return false;
  one_position_ = one_position;
  return true;
}

// The largest difference of logits, as a share of their spread, between a run of several tokens after `n_before` tokens and single steps.
double GraphBackend::probe_several(const SourcePtr& source, int n_before, bool one_position) {
  constexpr int kTokens = 4;
  std::vector<TokenId> tokens;
  for (int i = 0; i < kTokens; ++i) tokens.push_back(static_cast<TokenId>((int64_t{i} * 7919 + 3) % traits_.vocab));
  const auto run_probe = [&](std::span<const TokenId> some, GraphCache& cache) {
    const Batch batch{{&cache}, {1, cache.n_positions, static_cast<int64_t>(some.size()), false, one_position}};
    StepResult result = runner_.run(batch, some);
    cache.group = result.group;
    cache.n_positions += static_cast<int>(some.size());
    return result.logits;
  };
  const auto row_of = [&](const Tensor& logits, int64_t from_end) {
    std::vector<float> row(static_cast<size_t>(traits_.vocab));
    copy_floats(logits, logits.size() - from_end * logits.dim(-1), row);
    return row;
  };
  GraphCache single, together;
  single.source = source;
  for (int i = 0; i < n_before; ++i) run_probe(std::span(tokens).subspan(static_cast<size_t>(i), 1), single);
  together = single;
  const int n_tried = kTokens - n_before;
  const Tensor at_once = run_probe(std::span(tokens).subspan(static_cast<size_t>(n_before)), together);
  const bool gives_all = at_once.size() == n_tried * at_once.dim(-1);
  double largest = 0;
  for (int i = 0; i < n_tried; ++i) {
    const std::vector<float> expected = row_of(run_probe(std::span(tokens).subspan(static_cast<size_t>(n_before + i), 1), single), 1);
    if (!gives_all && i + 1 < n_tried) continue;
    const std::vector<float> found = row_of(at_once, n_tried - i);
    const double spread = spread_of(expected);
    for (size_t v = 0; v < expected.size(); ++v) {
      const double here = std::fabs(static_cast<double>(expected[v]) - found[v]);
      if (here == 0) continue;
      if (!(here <= spread)) return std::numeric_limits<double>::infinity();
      largest = std::max(largest, here / spread);
    }
  }
  return largest;
}

std::vector<std::shared_ptr<const Source>> GraphBackend::encode(std::span<const Tensor> inputs) {
  // Sources of the same shape share a run; nothing is padded.
  std::map<std::pair<Dims, size_t>, std::vector<size_t>> alike;
  for (size_t i = 0; i < inputs.size(); ++i) alike[{inputs[i].dims(), runner_.takes_batches() ? 0 : i}].push_back(i);
  std::vector<std::shared_ptr<const Source>> result(inputs.size());
  for (const auto& [key, members] : alike) {
    std::vector<Tensor> batch;
    for (const size_t i : members) batch.push_back(inputs[i]);
    const std::vector<SourcePtr> sources = runner_.encode(batch);
    for (size_t i = 0; i < members.size(); ++i) result[members[i]] = sources[i];
  }
  return result;
}

}  // namespace kvik::backend

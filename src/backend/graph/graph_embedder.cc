#include "backend/graph/graph_embedder.h"

#include <algorithm>
#include <fmt/format.h>

#include "analysis/hidden_output.h"
#include "analysis/inventory.h"
#include "backend/graph/batch_tensor.h"
#include "backend/graph/convert.h"
#include "backend/graph/feeds.h"
#include "kvik/error.h"

namespace kvik::backend {
namespace {

using analysis::File;
using analysis::Port;
using analysis::Role;

const Port& output_of(const File& file, bool pooled) {
  const Port* port = pooled ? file.output_of(Role::kSentenceEmbedding) : analysis::hidden_output(file);
  if (port == nullptr && pooled) port = file.output_of(Role::kPoolerOutput);
  if (port != nullptr) return *port;
  throw Error(Code::kUnsupported, fmt::format("{}: the graph does not output {}", file.path.string(),
                                              pooled ? "pooled vectors" : "hidden states for each token"));
}

class GraphEmbedder final : public Embedder {
 public:
  GraphEmbedder(analysis::Signature signature, const GraphEmbedderOptions& options,
                const std::function<std::unique_ptr<Executor>(const File&)>& open)
      : signature_(std::move(signature)) {
    file_ = signature_.embedder();
    if (file_ == nullptr) throw Error(Code::kUnsupported, fmt::format("{}: no file outputs hidden states", signature_.folder.string()));
    output_ = &output_of(*file_, options.pooled);
    executor_ = open(*file_);
    traits_ = {.name = options.name,
               .device = options.device,
               .pooled = options.pooled,
               .vocab = static_cast<int>(std::min<int64_t>(signature_.vocab.value_or(0), INT32_MAX)),
               .max_positions = static_cast<int>(std::min<int64_t>(signature_.max_positions.value_or(0), 1 << 30)),
               .weights_bytes = static_cast<size_t>(analysis::take_inventory(*file_->model).total_weight_bytes())};
    const std::vector<TokenId> one = {0};
    traits_.size = static_cast<int>(run_one(one).dim(1));  // the declared shape may leave it open
  }

  const EmbedderTraits& traits() const override { return traits_; }

  std::vector<Tensor> run(std::span<const std::vector<TokenId>> texts) override {
    std::vector<Tensor> results;
    for (const std::vector<TokenId>& text : texts) {
      results.push_back(run_one(text));
      if (results.back().dim(1) != traits_.size)
        throw Error(Code::kBadModel,
                    fmt::format("the graph outputs vectors of {} numbers; {} were expected", results.back().dim(1), traits_.size));
    }
    return results;
  }

 private:
  Tensor feed(size_t input, std::span<const TokenId> text, const StepShape& shape) const {
    const Port& port = file_->inputs[input];
    if (port.role == Role::kTokenIds) return token_feed(port, text, shape);
    if (is_shape_role(port.role)) return shape_feed(port, shape);
    for (const analysis::State& state : file_->states) {
      if (state.input == static_cast<int>(input)) return empty_state(state, port.dims, shape.n_sequences);
    }
    throw Error(Code::kUnsupported, fmt::format("{}: the input '{}' ({}) cannot be fed from a text; name its role in kvik.json if it can",
                                                file_->path.string(), port.name, analysis::role_name(port.role)));
  }

  Tensor run_one(std::span<const TokenId> text) {
    const auto n = static_cast<int64_t>(text.size());
    const StepShape shape{.n_sequences = 1, .n_past = 0, .n_new = n, .only_last_logits = false};
    std::vector<NamedValue> feeds;
    for (size_t i = 0; i < file_->inputs.size(); ++i) feeds.push_back({file_->inputs[i].name, executor_->from_host(feed(i, text, shape))});
    const Wanted wanted{output_->name, true};
    const Tensor given = cast_float(executor_->run(feeds, {&wanted, 1}).front()->to_host(), DType::kF32);
    const int64_t n_rows = traits_.pooled ? 1 : n;
    if (given.rank() < 2 || given.dim(-1) == 0 || given.size() != n_rows * given.dim(-1))
      throw Error(Code::kBadModel, fmt::format("the output '{}' has shape {} for a text of {} tokens; {} were expected", output_->name,
                                               to_string(given.dims()), n, traits_.pooled ? "one vector" : "as many vectors"));
    return given.reshaped({n_rows, given.dim(-1)});
  }

  analysis::Signature signature_;
  const File* file_ = nullptr;
  const Port* output_ = nullptr;
  std::unique_ptr<Executor> executor_;
  EmbedderTraits traits_;
};

}  // namespace

std::unique_ptr<Embedder> make_graph_embedder(analysis::Signature signature, const GraphEmbedderOptions& options,
                                              const std::function<std::unique_ptr<Executor>(const analysis::File&)>& open) {
  return std::make_unique<GraphEmbedder>(std::move(signature), options, open);
}

}  // namespace kvik::backend

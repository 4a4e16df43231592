#include "backend/native/native_embedder.h"

#include <algorithm>
#include <fmt/format.h>
#include <mutex>

#include "backend/native/graph/outcome.h"
#include "backend/native/hidden_states.h"
#include "backend/native/native_traits.h"
#include "backend/native/report.h"
#include "backend/native/source_stage.h"
#include "backend/native/stages.h"
#include "kvik/error.h"

namespace kvik::backend {
namespace {

class NativeEmbedder final : public Embedder {
 public:
  NativeEmbedder(analysis::Signature signature, const NativeOptions& options, const Log& log);

  const EmbedderTraits& traits() const override { return traits_; }
  std::vector<Tensor> run(std::span<const std::vector<TokenId>> texts) override;

 private:
  void try_one_token();

  analysis::Signature signature_;
  EmbedderTraits traits_;
  std::shared_ptr<Recorder> recorder_;
  ThreadPool pool_;
  std::mutex mutex_;  // one call at a time
  std::unique_ptr<native::HiddenStates> hidden_;
};

NativeEmbedder::NativeEmbedder(analysis::Signature signature, const NativeOptions& options, const Log& log)
    : signature_(std::move(signature)), recorder_(options.recorder), pool_(n_threads_of(options), recorder_.get()) {
  const cpu::CpuKernels& kernels = kernels_of(options.isa);
  const std::shared_ptr<const native::Plan> plan =
      native::take(native::compile_hidden_states(signature_, {options.context, options.no_fuse}));
  const native::RunnerFactory make{.weights = options.weights,
                                   .kv_format = kv_format_of(signature_, options, log),
                                   .kernels = &kernels,
                                   .pool = &pool_,
                                   .log = log,
                                   .recorder = recorder_.get(),
                                   .device = shared_device(options),
                                   .records_steps = options.records_steps};
  // Keys and values live as long as one call; what limits the KV cache of sessions does not apply to them.
  hidden_ = std::make_unique<native::HiddenStates>(make(plan), std::make_shared<kv::Budget>(0));
  traits_ = {.name = "native",
             .device = options.device != nullptr ? options.device_name : "cpu",
             .exact = true,
             .size = static_cast<int>(hidden_->runner().output_size()),
             .vocab = static_cast<int>(signature_.vocab.value_or(0)),
             .max_positions = smaller_limit(signature_.max_positions.value_or(0), plan->max_positions.value_or(0)),
             .unsupported_tokens = plan->unsupported_tokens};
  for (const auto& [format, bytes] : native::report(*plan, options.weights, make.kv_format).weights)
    traits_.weights_bytes += static_cast<size_t>(bytes);
  try_one_token();
  const std::string cpu = fmt::format("{} with {} thread{}", kernels.name, pool_.most_threads(), pool_.most_threads() == 1 ? "" : "s");
  log.info(fmt::format("native on {}", runs_on(options, {.decoder = plan}, make.kv_format, cpu)));
}

// Computes one token, so that a model that cannot run fails here, while another backend can still be chosen.
void NativeEmbedder::try_one_token() {
  TokenId token = 0;
  while (std::ranges::find(traits_.unsupported_tokens, token) != traits_.unsupported_tokens.end()) ++token;
  try {
    const std::vector<TokenId> texts[] = {{token}};
    run(texts);
  } catch (const Error& e) { throw Error(Code::kUnsupported, fmt::format("its plan fails on one token: {}", e.what())); }
}

std::vector<Tensor> NativeEmbedder::run(std::span<const std::vector<TokenId>> texts) {
  std::vector<Tensor> inputs;
  for (const std::vector<TokenId>& text : texts)
    inputs.push_back(Tensor::of({static_cast<int64_t>(text.size())}, std::vector<int64_t>(text.begin(), text.end())));
  const std::lock_guard lock(mutex_);
  for (const analysis::File& file : signature_.files) file.model->check_files_unchanged();
  std::vector<Tensor> rows;
  for (const Tensor& hidden : hidden_->run(inputs)) rows.push_back(hidden.reshaped({hidden.dim(1), hidden.dim(2)}));
  return rows;
}

}  // namespace

std::unique_ptr<Embedder> make_native_embedder(analysis::Signature signature, const NativeOptions& options, const Log& log) {
  return std::make_unique<NativeEmbedder>(std::move(signature), options, log);
}

}  // namespace kvik::backend

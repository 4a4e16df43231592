#include "backend/no_decoder.h"

#include "kvik/error.h"

namespace kvik::backend {
namespace {

class NoDecoder final : public Backend {
 public:
  explicit NoDecoder(const EmbedderTraits& embedder) {
    traits_.name = embedder.name;
    traits_.device = embedder.device;
    traits_.exact = embedder.exact;
    traits_.generates = false;
    traits_.can_rewind = traits_.can_fork = false;
    traits_.vocab = embedder.vocab;
    traits_.max_positions = embedder.max_positions;
    traits_.weights_bytes = traits_.weights_bytes_per_token = embedder.weights_bytes;
  }

  const Traits& traits() const override { return traits_; }
  int preferred_chunk() const override { return 1; }
  std::unique_ptr<Cache> new_cache(std::shared_ptr<const Source> /*source*/, int /*length*/) override { refuse(); }
  bool can_continue(const Cache& /*cache*/, int /*length*/) const override { return false; }
  std::unique_ptr<Cache> fork(const Cache& /*cache*/) override { refuse(); }
  void rewind(Cache& /*cache*/, int /*length*/) override { refuse(); }
  RunStatus run(std::span<const Row> /*rows*/, std::span<Cache* const> /*caches*/, Logits& /*logits*/) override { refuse(); }
  std::vector<Tensor> contents(const Cache& /*cache*/) override { refuse(); }
  std::unique_ptr<Cache> restore(std::span<const TokenId> /*tokens*/, std::span<const Tensor> /*contents*/) override { refuse(); }
  std::vector<std::shared_ptr<const Source>> encode(std::span<const Tensor> /*inputs*/) override { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    throw Error(Code::kUnsupported, "this model only computes embeddings and cannot generate; use embed");
  }

  Traits traits_;
};

}  // namespace

std::unique_ptr<Backend> make_no_decoder(const EmbedderTraits& embedder) { return std::make_unique<NoDecoder>(embedder); }

}  // namespace kvik::backend

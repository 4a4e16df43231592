// llama.cpp as a contender of bench/peers, by its own library: peer FILE THREADS, then commands (commands.h). Built by
// bench/peers/setup, not with the project.
#include "llama.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"

namespace {

class Llama : public peers::Contender {
 public:
  Llama(llama_model* model, int n_threads) : model_(model), n_threads_(n_threads) {}

  // A context for what is asked and no more: its size changes the speed.
  void prepare(int n_sequences, int n_positions) override {
    const uint32_t n_context = static_cast<uint32_t>(n_sequences) * static_cast<uint32_t>((n_positions + 255) / 256 * 256);
    if (context_ && llama_n_seq_max(context_.get()) == static_cast<uint32_t>(n_sequences) && llama_n_ctx(context_.get()) == n_context)
      return;
    llama_context_params params = llama_context_default_params();
    params.n_threads = params.n_threads_batch = n_threads_;
    params.n_ctx = n_context;
    params.n_seq_max = static_cast<uint32_t>(n_sequences);
    params.kv_unified = false;  // a sequence reads only its own cache: the faster choice for sequences that share nothing
    params.no_perf = true;
    context_.reset();
    context_.reset(llama_init_from_model(model_, params));
    if (!context_) throw std::runtime_error("llama_init_from_model failed");
    batch_ = llama_batch_init(static_cast<int>(llama_n_batch(context_.get())), 0, 1);
  }

  void fill(int n_sequences, int depth) override {
    const int most = static_cast<int>(llama_n_batch(context_.get()));
    llama_memory_clear(llama_get_memory(context_.get()), true);
    n_sequences_ = n_sequences;
    depth_ = depth;
    for (int s = 0; s < n_sequences; ++s) {
      for (int first = 0; first < depth; first += most) {
        batch_.n_tokens = 0;
        for (int p = first; p < std::min(depth, first + most); ++p) add(peers::prompt_token(p, s, vocab()), p, s, p == depth - 1);
        decode();
      }
    }
  }

  void rewind(int depth) override {
    for (int s = 0; s < n_sequences_; ++s) llama_memory_seq_rm(llama_get_memory(context_.get()), s, depth, -1);
    depth_ = depth;
  }

  void step(int token) override {
    batch_.n_tokens = 0;
    for (int s = 0; s < n_sequences_; ++s) add((token + s * 131) % vocab(), depth_, s, true);
    decode();
    ++depth_;
  }

  void set_threads(int n) override {
    n_threads_ = n;
    if (context_) llama_set_n_threads(context_.get(), n, n);
  }

 private:
  int vocab() const { return llama_vocab_n_tokens(llama_model_get_vocab(model_)); }

  void add(int token, int position, int sequence, bool wants_logits) {
    const int i = batch_.n_tokens++;
    batch_.token[i] = token;
    batch_.pos[i] = position;
    batch_.n_seq_id[i] = 1;
    batch_.seq_id[i][0] = sequence;
    batch_.logits[i] = wants_logits;
  }

  void decode() {
    const int status = llama_decode(context_.get(), batch_);
    llama_synchronize(context_.get());
    if (status != 0) throw std::runtime_error("llama_decode returned " + std::to_string(status));
  }

  struct Free {
    void operator()(llama_context* context) const { llama_free(context); }
  };
  llama_model* model_;
  int n_threads_;
  std::unique_ptr<llama_context, Free> context_;
  llama_batch batch_{};
  int n_sequences_ = 0, depth_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_backend_init();
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = 999;  // all, if it was built for a GPU
  llama_model* model = llama_model_load_from_file(argv[1], params);
  if (model == nullptr) {
    std::fprintf(stderr, "llama.cpp cannot load %s\n", argv[1]);
    return 1;
  }
  Llama contender(model, std::atoi(argv[2]));
  peers::CommandLoop(contender).run("{}");
  return 0;
}

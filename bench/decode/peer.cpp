// Times llama.cpp's decoding by its own library: peer FILE THREADS PROMPT TOKENS prints the milliseconds of each step.
// Built by bench/decode/setup, not with the project.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "llama.h"

namespace {

bool decode(llama_context* context, std::vector<llama_token> tokens) {
  const bool done = llama_decode(context, llama_batch_get_one(tokens.data(), static_cast<int>(tokens.size()))) == 0;
  llama_synchronize(context);
  return done;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int threads = std::atoi(argv[2]), n_prompt = std::atoi(argv[3]), n_tokens = std::atoi(argv[4]);
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_backend_init();
  llama_model_params model_params = llama_model_default_params();
  model_params.n_gpu_layers = 0;
  llama_model* model = llama_model_load_from_file(argv[1], model_params);
  if (model == nullptr) return 1;
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(n_prompt + n_tokens + 8);
  params.n_threads = params.n_threads_batch = threads;
  llama_context* context = llama_init_from_model(model, params);
  if (context == nullptr) return 1;
  const int vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
  std::vector<llama_token> prompt;
  for (int i = 0; i < n_prompt; ++i) prompt.push_back((i * 7919 + 31) % vocab);
  if (!decode(context, prompt)) return 1;
  for (int i = 0; i < n_tokens; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    if (!decode(context, {(i * 104729 + 7) % vocab})) return 1;
    std::printf("%.6f\n", std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  llama_free(context);
  llama_model_free(model);
  return 0;
}

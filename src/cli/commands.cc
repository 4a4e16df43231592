#include "cli/network.h"

namespace kvik::cli {

void add_run(Commands commands);
void add_chat(Commands commands);
void add_translate(Commands commands);
void add_transcribe(Commands commands);
void add_embed(Commands commands);
void add_inspect(Commands commands);
void add_models(Commands commands);
void add_verify(Commands commands);
void add_bench(Commands commands);
void add_score(Commands commands);
void add_tokenize(Commands commands);
void add_render(Commands commands);
void add_completion(Commands commands);
void add_manual(Commands commands);

void add_all(Commands commands) {
  add_run(commands);
  add_chat(commands);
  add_translate(commands);
  add_transcribe(commands);
  add_embed(commands);
  add_inspect(commands);
  add_models(commands);
  add_pull(commands);
  add_verify(commands);
  add_bench(commands);
  add_serve(commands);
  add_score(commands);
  add_tokenize(commands);
  add_render(commands);
  add_completion(commands);
  add_manual(commands);
}

}  // namespace kvik::cli

// Many stories at once, on one model and in one batch: each is the same as alone. usage: example-streams [MODEL], with one beginning per
// line on standard input
#include <iostream>
#include <string>
#include <vector>

#include "kvik/engine.h"

int main(int argc, char** argv) try {
  kvik::Engine engine(kvik::Model::load(argc > 1 ? argv[1] : "fable"), {.max_sequences = 32});
  std::vector<kvik::Stream> streams;
  for (std::string line; std::getline(std::cin, line);)
    streams.push_back(engine.submit(line, {.max_tokens = 40, .sampling = {.temperature = 0.7, .seed = 1}, .stop = {"\n"}}));
  for (kvik::Stream& stream : streams) {
    for (const std::string_view piece : stream) std::cout << piece << std::flush;
    std::cout << "\n";
  }
} catch (const kvik::Error& e) {
  std::cerr << e.what() << "\n";
  return 1;
}

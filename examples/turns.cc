// A text that two write: you a line, the model a line. What is already in the session is never computed again.
// usage: example-turns [MODEL], lines on standard input
#include <iostream>
#include <string>

#include "kvik/kvik.h"

int main(int argc, char** argv) try {
  const kvik::Model model = kvik::Model::load(argc > 1 ? argv[1] : "fable");
  kvik::Session session = model.session();
  std::string story;
  for (std::string line; std::getline(std::cin, line);) {
    story += line;
    kvik::Generation answer =
        model.generate(session, model.tokenize(story), {.max_tokens = 24, .sampling = {.temperature = 0.7, .seed = 1}, .stop = {"\n"}});
    for (const std::string_view piece : answer) {
      story += piece;
      std::cout << piece << std::flush;
    }
    std::cout << "\n  (" << answer.metrics().reused_tokens << " tokens reused, " << answer.metrics().prompt_tokens << " read)\n";
    story += "\n";
  }
} catch (const kvik::Error& e) {
  std::cerr << e.what() << "\n";
  return 1;
}

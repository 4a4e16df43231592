// The shortest program: a story, printed as it is generated. usage: example-story [MODEL] [BEGINNING]
#include <iostream>

#include "kvik/kvik.h"

int main(int argc, char** argv) try {
  const kvik::Model model = kvik::Model::load(argc > 1 ? argv[1] : "fable");
  for (const std::string_view piece :
       model.generate(argc > 2 ? argv[2] : "Once upon a time", {.max_tokens = 64, .sampling = {.temperature = 0.8}})) {
    std::cout << piece << std::flush;
  }
  std::cout << "\n";
} catch (const kvik::Error& e) {
  std::cerr << e.what() << "\n";
  return 1;
}

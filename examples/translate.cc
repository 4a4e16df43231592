// Translates lines of standard input, in order and in batches. usage: example-translate [MODEL]
#include <iostream>
#include <string>
#include <vector>

#include "kvik/kvik.h"

int main(int argc, char** argv) try {
  const kvik::Model model = kvik::Model::load(argc > 1 ? argv[1] : "en-zh");
  std::vector<std::string> texts;
  for (std::string line; std::getline(std::cin, line);) texts.push_back(line);
  for (const kvik::Translation& translation : model.translate(texts, {.beams = 4, .max_tokens = 64})) {
    std::cout << translation.text << "  (" << translation.score << ")\n";
  }
} catch (const kvik::Error& e) {
  std::cerr << e.what() << "\n";
  return 1;
}

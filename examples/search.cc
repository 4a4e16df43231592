// A search over continuations, the way a game tree or an agent goes: fork one context thousands of times, try, rewind, keep the best.
// Finds the likeliest continuation of a text among those that a beam of forks meets. usage: example-search [MODEL] [TEXT] [DEPTH] [WIDTH]
#include <algorithm>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "kvik/kvik.h"

namespace {

struct Branch {
  kvik::Session session;
  double log_probability = 0;
};

struct Move {
  size_t branch = 0;
  kvik::TokenId token = 0;
  double log_probability = 0;
};

double log_of_sum(std::span<const float> logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - largest));
  return largest + std::log(sum);
}

// The `width` best moves of all branches.
std::vector<Move> best_moves(std::vector<Branch>& branches, size_t width) {
  std::vector<Move> moves;
  for (size_t b = 0; b < branches.size(); ++b) {
    const std::span<const float> logits = branches[b].session.logits();
    const double normalizer = log_of_sum(logits);
    for (size_t id = 0; id < logits.size(); ++id)
      moves.push_back({b, static_cast<kvik::TokenId>(id), branches[b].log_probability + logits[id] - normalizer});
  }
  const auto better = [](const Move& a, const Move& b) { return a.log_probability > b.log_probability; };
  width = std::min(width, moves.size());
  std::partial_sort(moves.begin(), moves.begin() + static_cast<std::ptrdiff_t>(width), moves.end(), better);
  moves.resize(width);
  return moves;
}

}  // namespace

int main(int argc, char** argv) try {
  const kvik::Model model = kvik::Model::load(argc > 1 ? argv[1] : "fable");
  const std::string text = argc > 2 ? argv[2] : "Once upon a time";
  const int depth = argc > 3 ? std::stoi(argv[3]) : 12;
  const size_t width = argc > 4 ? std::stoul(argv[4]) : 4;

  std::vector<Branch> branches;
  branches.push_back({model.session()});
  if (branches.front().session.append(model.tokenize(text)) != kvik::AppendStatus::kDone) throw std::length_error("the text is too long");
  const int start = branches.front().session.length();

  // Forks are cheap: they share the past and copy nothing.
  size_t n_forks = 0;
  for (; n_forks < 5000; ++n_forks) kvik::Session thrown_away = branches.front().session.fork();

  for (int step = 0; step < depth; ++step) {
    std::vector<Branch> next;
    std::vector<kvik::TokenId> tokens;
    for (const Move& move : best_moves(branches, width)) {
      next.push_back({branches[move.branch].session.fork(), move.log_probability});
      tokens.push_back(move.token);
      ++n_forks;
    }
    std::vector<kvik::Session*> sessions;
    for (Branch& branch : next) sessions.push_back(&branch.session);
    if (model.step(sessions, tokens) != kvik::AppendStatus::kDone) break;  // one run for all branches
    branches = std::move(next);
  }
  for (Branch& branch : branches) {
    std::cout << branch.log_probability << "  " << text << model.detokenize(branch.session.tokens().subspan(static_cast<size_t>(start)))
              << "\n";
  }
  std::cout << n_forks << " forks\n";
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 1;
}

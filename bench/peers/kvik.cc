// Kvik as a contender of bench/peers: bench-peers FOLDER --weights q8 --threads 2 [--lines FILE], then commands (commands.h).
#include "kvik/kvik.h"

#include <fmt/format.h>
#include <fstream>
#include <string>
#include <vector>

#include "commands.h"
#include "kvik/inspect.h"
#include "options.h"

namespace {

class Kvik : public peers::Contender {
 public:
  // `chooses`: a step ends with the next token and not with all logits.
  Kvik(const kvik::Model& model, const std::string& lines_file, bool chooses) : model_(model), chooses_(chooses) {
    greedy_.temperature = 0;
    std::ifstream lines(lines_file);
    for (std::string line; std::getline(lines, line);) lines_.push_back(line);
  }

  void fill(int n_sequences, int depth) override {
    sessions_.clear();
    chosen_.clear();
    for (int s = 0; s < n_sequences; ++s) {
      std::vector<kvik::TokenId> prompt;
      for (int i = 0; i < depth; ++i) prompt.push_back(peers::prompt_token(i, s, model_.vocab_size()));
      sessions_.push_back(model_.session());
      check(sessions_.back().append(prompt));
    }
  }

  void rewind(int depth) override {
    for (kvik::Session& session : sessions_) session.rewind(depth);
    chosen_.clear();
  }

  void step(int token) override {
    std::vector<kvik::Session*> sessions;
    std::vector<kvik::TokenId> tokens;
    for (kvik::Session& session : sessions_) {
      tokens.push_back(static_cast<kvik::TokenId>((token + static_cast<int>(tokens.size()) * 131) % model_.vocab_size()));
      sessions.push_back(&session);
    }
    if (!chosen_.empty()) tokens = chosen_;
    check(model_.step(sessions, tokens));
    if (!chooses_) return;
    chosen_.clear();
    for (kvik::Session& session : sessions_) chosen_.push_back(session.sample(greedy_));
  }

  std::vector<double> translate(int batch, int beams) override {
    std::vector<kvik::Translation> found;
    std::vector<double> answer = {peers::ms_of(
        [&] { found = model_.translate(lines_, {.beams = beams, .max_tokens = kMostNewTokens, .batch = batch, .scores = false}); })};
    for (const kvik::Translation& translation : found) {
      answer.push_back(static_cast<double>(translation.ids.size()));
      answer.insert(answer.end(), translation.ids.begin(), translation.ids.end());
    }
    return answer;
  }

 private:
  static constexpr int kMostNewTokens = 64;  // as in models/translation.py

  static void check(kvik::AppendStatus status) {
    if (status != kvik::AppendStatus::kDone) throw std::runtime_error("the context is too small");
  }

  const kvik::Model& model_;
  bool chooses_;
  kvik::Sampling greedy_;
  std::vector<kvik::Session> sessions_;
  std::vector<kvik::TokenId> chosen_;
  std::vector<std::string> lines_;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    kvik::LoadOptions load;
    load.reuse_prefixes = false;  // every prompt is computed, also the second time
    std::string lines;            // to translate
    const std::string folder = kvik::bench::parse_options(argc, argv, [&](const std::string& option, const std::string& value) {
      if (option == "--lines") return lines = value, true;
      return kvik::bench::set_load_option(load, option, value);
    });
    const kvik::Model model = kvik::Model::load(folder, load);
    // There the largest logit can be known while others are not computed, or not read.
    const bool chooses = model.device() != "cpu" || load.weights == kvik::Weights::kF32;
    Kvik contender(model, lines, chooses);
    peers::CommandLoop(contender).run(fmt::format(R"({{"device": "{}", "weights_bytes": {}, "cache_bytes": {}, "bandwidth": {:.2f}}})",
                                                  model.device(), model.weights_bytes_per_token(), model.cache_bytes_per_token(),
                                                  kvik::measure_bandwidth_gb_per_s(model, load.threads)));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-peers: {}\n", error.what());
    return 1;
  }
}

#pragma once

#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

// What a contender of bench/peers is asked through standard input, one command per line, and how it answers, one line per command:
//   prefill N                  milliseconds of a prompt of N tokens
//   decode SEQUENCES DEPTH N   milliseconds of each of N steps that add one token to each of SEQUENCES sequences of DEPTH tokens
//   uncached PROMPT N          milliseconds for N tokens with the cache, and for the same tokens if each step computes everything before it
//   translate BATCH BEAMS      milliseconds for all lines that it was started with, then each translation as its number of ids and the ids
//   threads N                  changes the number of threads; answers 0
// A command that fails is answered by "! " and a sentence. Peers compute logits for ids all over the vocabulary and sample nothing. On a
// GPU and with f32 weights, a step of Kvik also chooses the likeliest token, which the next step continues with.
namespace peers {

class Contender {
 public:
  virtual ~Contender() = default;
  virtual void prepare(int /*n_sequences*/, int /*n_positions*/) {}  // memory for what comes; is not measured
  virtual void fill(int n_sequences, int depth) = 0;                 // forgets everything, then computes prompts of `depth` tokens
  virtual void rewind(int depth) = 0;                                // of all sequences
  virtual void step(int token) = 0;  // appends one token to each sequence; they differ from sequence to sequence
  virtual std::vector<double> translate(int /*batch*/, int /*beams*/) { throw std::runtime_error("it has no lines to translate"); }
  virtual void set_threads(int /*n*/) { throw std::runtime_error("the number of threads is fixed"); }
};

inline int prompt_token(int i, int sequence, int vocab) { return static_cast<int>((i * 7919LL + 31 + sequence * 101LL) % vocab); }

template <class Work>
double ms_of(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

class CommandLoop {
 public:
  explicit CommandLoop(Contender& contender) : contender_(contender) {}

  // Returns at the end of the input. `facts` is a JSON object about what was loaded.
  void run(const std::string& facts) {
    std::printf("%s\n", facts.c_str());
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) {
      try {
        for (const double ms : answer(line)) std::printf("%.6f ", ms);
        std::printf("\n");
      } catch (const std::exception& error) {
        sequences_ = 0;
        std::printf("! %s\n", error.what());
      }
      std::fflush(stdout);
    }
  }

 private:
  std::vector<double> answer(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    int a = 0, b = 0, c = 0;
    words >> command >> a >> b >> c;
    if (command == "prefill") return {prefill(a)};
    if (command == "decode") return decode(a, b, c);
    if (command == "uncached") return uncached(a, b);
    if (command == "translate") return contender_.translate(a, b);
    if (command != "threads") throw std::runtime_error("unknown command: " + line);
    contender_.set_threads(a);
    return {0.0};
  }

  double prefill(int n) {
    sequences_ = 0;
    contender_.prepare(1, n);
    return ms_of([&] { contender_.fill(1, n); });
  }

  // A prompt that was computed for the last command is used again.
  std::vector<double> decode(int n_sequences, int depth, int n_steps) {
    if (n_sequences != sequences_ || depth != depth_) {
      contender_.prepare(n_sequences, depth + n_steps);
      contender_.fill(n_sequences, depth);
    }
    sequences_ = n_sequences;
    depth_ = depth;
    std::vector<double> ms;
    for (int i = 0; i < n_steps; ++i) ms.push_back(ms_of([&] { contender_.step(i * 1009 + 7); }));
    contender_.rewind(depth);
    return ms;
  }

  std::vector<double> uncached(int n_prompt, int n_tokens) {
    sequences_ = 0;
    contender_.prepare(1, n_prompt + n_tokens);
    const double cached = ms_of([&] {
      contender_.fill(1, n_prompt);
      for (int i = 1; i < n_tokens; ++i) contender_.step(i);
    });
    const double recomputed = ms_of([&] {
      for (int i = 0; i < n_tokens; ++i) contender_.fill(1, n_prompt + i);
    });
    return {cached, recomputed};
  }

  Contender& contender_;
  int sequences_ = 0, depth_ = 0;  // of the prompts that the contender has; 0: none
};

}  // namespace peers

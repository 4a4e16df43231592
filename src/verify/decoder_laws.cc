#include "verify/decoder_laws.h"

#include <algorithm>
#include <fmt/format.h>

#include "engine/decoder.h"
#include "engine/sample_strategy.h"
#include "engine/tree.h"
#include "kvik/error.h"

namespace kvik::laws {
namespace {

using LogitsRow = std::vector<float>;
using engine::Decoder;
using engine::Sequence;

// Proposes the tokens that are known to follow, wrong ones at every position that `wrong_every` divides.
class KnownTokens final : public engine::Proposer {
 public:
  KnownTokens(std::vector<TokenId> known, size_t wrong_every, int vocab)
      : known_(std::move(known)), wrong_every_(wrong_every), vocab_(vocab) {}
  std::optional<engine::Evidence> match(std::span<const TokenId>) override { return engine::Evidence::kMatch; }
  void propose(std::span<const TokenId> tokens, size_t n, std::vector<TokenId>& proposed) override {
    for (size_t i = tokens.size(); i < std::min(tokens.size() + n, known_.size()); ++i)
      proposed.push_back(i % wrong_every_ == 0 ? (known_[i] + 1) % vocab_ : known_[i]);
  }

 private:
  std::vector<TokenId> known_;
  size_t wrong_every_;
  int vocab_;
};

class Verifier {
 public:
  Verifier(std::shared_ptr<backend::Backend> backend, const DecoderLaws& options, const Watch& watch)
      : backend_(std::move(backend)),
        decoder_(std::make_shared<Decoder>(backend_)),
        options_(options),
        prompt_(options.prompt),
        book_(watch) {
    // The expected logits: every beginning of the prompt computed alone, in one run, from an empty cache.
    for (size_t n = 1; n <= prompt_.size() && !book_.cancelled(); ++n) fresh_.push_back(logits_of(backend_, std::span(prompt_).first(n)));
  }

  std::vector<Law> run() {
    law("cached = uncached", [&] { cached_is_uncached(); });
    law("any split of the prompt", [&] { any_split(); });
    law("reset = new", [&] { reset_is_new(); });
    if (backend_->traits().can_rewind) law("rewound = never happened", [&] { rewound_never_happened(); });
    if (backend_->traits().can_fork) law("forked = fresh", [&] { forked_is_fresh(); });
    law("saved = never left", [&] { saved_never_left(); });
    law("sessions side by side", [&] { side_by_side(); });
    law("batch = alone", [&] { batch_is_alone(); });
    if (backend_->traits().exact && backend_->traits().can_rewind) law("prefix hit = miss", [&] { prefix_hit_is_miss(); });
    if (backend_->traits().exact && backend_->traits().can_rewind) law("speculative = plain", [&] { speculative_is_plain(); });
    const backend::Traits& traits = backend_->traits();
    const bool switches = traits.switch_after > 0 && static_cast<int64_t>(prompt_.size()) + 2 > traits.switch_after;
    if (traits.exact && traits.can_branch && !switches) {
      law("tree row = its path alone", [&] { tree_row_is_path(); });
      law("kept path = computed path", [&] { kept_is_computed(); });
    }
    for (const Peer& peer : options_.peers) {
      if (peer.information) {
        book_.measure(peer.law, [&] { agrees(peer, peer.row_by_row); });
        continue;
      }
      book_.law(peer.law, peer.tolerance, [&] { agrees(peer, peer.row_by_row); });
      if (peer.row_by_row) book_.measure(peer.law + ", all rows in one run", [&] { agrees(peer, false); });
    }
    return book_.take();
  }

 private:
  void law(const std::string& name, const std::function<void()>& body) { book_.law(name, options_.tolerance, body); }

  Sequence new_sequence() const { return {decoder_, options_.context}; }

  static void feed(Sequence& sequence, std::span<const TokenId> tokens) {
    if (sequence.append(tokens) != AppendStatus::kDone) throw Error(Code::kTooLarge, "the prompt does not fit into the context");
  }

  LogitsRow logits_of(const std::shared_ptr<backend::Backend>& backend, std::span<const TokenId> tokens) const {
    Sequence sequence(backend, options_.context);
    feed(sequence, tokens);
    return {sequence.logits().begin(), sequence.logits().end()};
  }

  std::span<const TokenId> tokens(size_t from, size_t to) const { return std::span(prompt_).subspan(from, to - from); }

  void compare(std::span<const float> found, const LogitsRow& expected, const std::string& where) { book_.compare(found, expected, where); }
  void compare(Sequence& sequence, const LogitsRow& expected, const std::string& where) { compare(sequence.logits(), expected, where); }

  void cached_is_uncached() {
    Sequence sequence = new_sequence();
    for (size_t n = 0; n < prompt_.size(); ++n) {
      feed(sequence, tokens(n, n + 1));
      compare(sequence, fresh_[n], fmt::format("token by token, after {} of {} tokens", n + 1, prompt_.size()));
    }
  }

  void any_split() {
    for (size_t split = 1; split < prompt_.size(); ++split) {
      Sequence sequence = new_sequence();
      feed(sequence, tokens(0, split));
      feed(sequence, tokens(split, prompt_.size()));
      compare(sequence, fresh_.back(), fmt::format("the prompt split after {} of {} tokens", split, prompt_.size()));
    }
  }

  void reset_is_new() {
    Sequence sequence = new_sequence();
    feed(sequence, tokens(0, prompt_.size()));
    for (const size_t n : {prompt_.size(), size_t{1}}) {
      sequence.rewind(0);
      feed(sequence, tokens(0, n));
      compare(sequence, fresh_[n - 1], fmt::format("{} tokens after a reset", n));
    }
  }

  void rewound_never_happened() {
    for (size_t keep = 1; keep < prompt_.size(); ++keep) {
      Sequence sequence = new_sequence();
      feed(sequence, tokens(0, prompt_.size()));
      sequence.rewind(static_cast<int>(keep));
      compare(sequence, fresh_[keep - 1], fmt::format("rewound to {} of {} tokens", keep, prompt_.size()));
      const TokenId other = stranger();
      feed(sequence, {&other, 1});
      sequence.rewind(static_cast<int>(keep));
      feed(sequence, tokens(keep, prompt_.size()));
      compare(sequence, fresh_.back(), fmt::format("rewound to {} of {} tokens after another continuation", keep, prompt_.size()));
    }
  }

  void forked_is_fresh() {
    for (size_t at = 1; at < prompt_.size(); ++at) {
      Sequence trunk = new_sequence();
      feed(trunk, tokens(0, at));
      Sequence branch = trunk.fork();
      const TokenId other = stranger();
      feed(branch, {&other, 1});
      Sequence sibling = trunk.fork();
      feed(trunk, tokens(at, prompt_.size()));
      feed(sibling, tokens(at, prompt_.size()));
      compare(trunk, fresh_.back(), fmt::format("the trunk of a fork at {} tokens", at));
      compare(sibling, fresh_.back(), fmt::format("the sibling of a fork at {} tokens", at));
      std::vector<TokenId> alone(prompt_.begin(), prompt_.begin() + static_cast<ptrdiff_t>(at));
      alone.push_back(other);
      compare(branch, logits_of(backend_, alone), fmt::format("a branch at {} tokens", at));
    }
  }

  void saved_never_left() {
    for (size_t at = 1; at < prompt_.size(); ++at) {
      Sequence left = new_sequence();
      feed(left, tokens(0, at));
      const std::vector<Tensor> contents = left.contents();
      Sequence back = Sequence::restored(decoder_, options_.context, left.tokens(), contents, {});
      if (backend_->traits().can_rewind) compare(back, fresh_[at - 1], fmt::format("restored after {} tokens", at));
      feed(back, tokens(at, prompt_.size()));
      compare(back, fresh_.back(), fmt::format("restored after {} tokens and continued", at));
    }
  }

  void side_by_side() {
    Sequence one = new_sequence(), two = new_sequence();
    const std::vector<TokenId> reversed(prompt_.rbegin(), prompt_.rend());
    for (size_t n = 0; n < prompt_.size(); ++n) {
      feed(one, tokens(n, n + 1));
      feed(two, std::span(reversed).subspan(n, 1));
    }
    compare(one, fresh_.back(), "the first of two sessions that take turns");
    compare(two, logits_of(backend_, reversed), "the second of two sessions that take turns");
  }

  void batch_is_alone() {
    // Three sessions of unequal length step together, and two of equal length.
    for (const std::vector<size_t>& lengths :
         {std::vector<size_t>{1, prompt_.size() / 2 + 1, prompt_.size() - 1}, std::vector<size_t>{1, 1}}) {
      std::vector<Sequence> sequences;
      std::vector<Sequence*> pointers;
      std::vector<TokenId> next;
      for (const size_t length : lengths) {
        sequences.push_back(new_sequence());
        feed(sequences.back(), tokens(0, std::min(length, prompt_.size() - 1)));
      }
      for (Sequence& sequence : sequences) {
        pointers.push_back(&sequence);
        next.push_back(prompt_[static_cast<size_t>(sequence.length())]);
      }
      if (Sequence::append_each(pointers, next) != AppendStatus::kDone)
        throw Error(Code::kTooLarge, "the prompt does not fit into the context");
      for (Sequence& sequence : sequences) {
        compare(sequence, fresh_[static_cast<size_t>(sequence.length()) - 1],
                fmt::format("a batch of {}, the row of length {}", lengths.size(), sequence.length()));
      }
    }
  }

  // Sequences find the positions of those before them, whole pages and parts of one.
  void prefix_hit_is_miss() {
    for (size_t n = 2; n <= prompt_.size(); ++n) {
      for (const bool ended : {false, true}) {
        Sequence first = new_sequence(), second = new_sequence();
        first.reuse_prefixes();
        second.reuse_prefixes();
        feed(first, tokens(0, n));
        if (ended) first.rewind(0);
        feed(second, tokens(0, prompt_.size()));
        compare(second, fresh_.back(), fmt::format("behind {} tokens that another sequence computed", n));
        const TokenId other = stranger();
        feed(second, {&other, 1});
        second.rewind(static_cast<int>(n));
        compare(second, fresh_[n - 1], fmt::format("rewound to {} tokens that were found", n));
      }
    }
  }

  // Tokens and logits after each step that chose one.
  struct Steps {
    std::vector<TokenId> tokens;
    std::vector<LogitsRow> rows;
  };
  Steps generate(const Sampling& sampling, size_t max_length, std::unique_ptr<engine::Proposer> proposer) const {
    const backend::Traits& traits = backend_->traits();
    const auto sampler =
        std::make_shared<sample::Sampler>(sampling, sample::TokenRules{static_cast<size_t>(traits.vocab), {}, traits.unsupported_tokens});
    engine::SampleOptions how{.stop = {{}, max_length, nullptr}, .prompt_length = prompt_.size(), .scores = false, .seed = 1};
    engine::Stream stream(new_sequence(), std::make_unique<engine::SampleStrategy>(sampler, std::move(how)));
    if (proposer != nullptr) {
      std::vector<std::unique_ptr<engine::Proposer>> proposers;
      proposers.push_back(std::move(proposer));
      stream.speculation = std::make_unique<engine::Speculation>(
          std::move(proposers), engine::SpeculationOptions{.max_length = max_length, .most_tokens = 4, .adapt = false});
    }
    Sequence& sequence = stream.branches.front();
    for (const TokenId token : prompt_) sequence.push(token);
    Steps steps;
    engine::Stream* const alone[] = {&stream};
    for (int n_before = 0; !stream.finish; n_before = stream.timing.n_generated) {
      if (decoder_->step(alone) == engine::StepStatus::kNoMemory) throw decoder_->no_memory();
      if (stream.timing.n_generated > n_before) steps.rows.emplace_back(sequence.known_logits().begin(), sequence.known_logits().end());
    }
    if (stream.error) std::rethrow_exception(stream.error);
    steps.tokens.assign(prompt_.begin(), prompt_.end());
    const std::vector<TokenId> ids = stream.strategy->targets().front().ids;
    steps.tokens.insert(steps.tokens.end(), ids.begin(), ids.end());
    return steps;
  }

  // Proposals that are all wrong, all right, and wrong now and then.
  void speculative_is_plain() {
    constexpr size_t kSteps = 12;
    for (const Sampling& sampling : {Sampling{.temperature = 0.0}, Sampling{.temperature = 1.0, .repetition_penalty = 1.1}}) {
      const size_t max_length = prompt_.size() + kSteps;
      const Steps plain = generate(sampling, max_length, nullptr);
      for (const size_t wrong_every : {size_t{1}, size_t{2}, size_t{3}, size_t{5}, max_length + 1}) {
        const Steps found =
            generate(sampling, max_length, std::make_unique<KnownTokens>(plain.tokens, wrong_every, backend_->traits().vocab));
        const std::string where = fmt::format("{}, every proposed token whose position {} divides is wrong",
                                              *sampling.temperature > 0 ? "sampled" : "greedy", wrong_every);
        book_.compare_ids(found.tokens, plain.tokens, where);
        book_.require(found.rows.size() == plain.rows.size(), where);
        for (size_t i = 0; i < std::min(found.rows.size(), plain.rows.size()); ++i)
          compare(found.rows[i], plain.rows[i], fmt::format("{}, step {}", where, i + 1));
      }
    }
  }

  // A tree behind the first tokens: the rest of the prompt as its trunk, and at every node of that a branch of two tokens.
  struct Bush {
    std::vector<TokenId> tokens;
    std::vector<int> parents;
    std::vector<LogitsRow> expected;
  };
  Bush bush(size_t at) const {
    Bush result;
    int trunk = -1;
    for (size_t n = at; n < prompt_.size(); ++n) {
      std::vector<TokenId> path(prompt_.begin(), prompt_.begin() + static_cast<ptrdiff_t>(n));
      int parent = trunk;
      for (const TokenId token : {stranger(), prompt_.front()}) {
        path.push_back(token);
        result.tokens.push_back(token);
        result.parents.push_back(parent);
        result.expected.push_back(logits_of(backend_, path));
        parent = static_cast<int>(result.tokens.size()) - 1;
      }
      result.tokens.push_back(prompt_[n]);
      result.parents.push_back(trunk);
      result.expected.push_back(fresh_[n]);
      trunk = static_cast<int>(result.tokens.size()) - 1;
    }
    return result;
  }

  void compute(engine::Tree& tree, Sequence& sequence, const Bush& wanted) const {
    if (tree.compute(sequence, wanted.tokens, wanted.parents) != AppendStatus::kDone)
      throw Error(Code::kTooLarge, "the prompt does not fit into the context");
  }

  void tree_row_is_path() {
    for (size_t at = 1; at < prompt_.size(); at += std::max<size_t>(1, prompt_.size() / 4)) {
      Sequence sequence = new_sequence();
      feed(sequence, tokens(0, at));
      const Bush wanted = bush(at);
      engine::Tree tree;
      compute(tree, sequence, wanted);
      for (int node = 0; node < tree.size(); ++node)
        compare(tree.logits(node), wanted.expected[static_cast<size_t>(node)], fmt::format("node {} of a tree behind {} tokens", node, at));
    }
  }

  void kept_is_computed() {
    const size_t at = (prompt_.size() + 1) / 2;
    const Bush wanted = bush(at);
    for (size_t node = 0; node < wanted.tokens.size(); ++node) {
      Sequence sequence = new_sequence();
      feed(sequence, tokens(0, at));
      engine::Tree tree;
      compute(tree, sequence, wanted);
      tree.keep(static_cast<int>(node), sequence);
      compare(sequence, wanted.expected[node], fmt::format("the kept node {}", node));
      std::vector<TokenId> path(sequence.tokens().begin(), sequence.tokens().end());
      path.push_back(stranger());
      feed(sequence, {&path.back(), 1});
      compare(sequence, logits_of(backend_, path), fmt::format("behind the kept node {}", node));
    }
  }

  void agrees(const Peer& peer, bool row_by_row) {
    for (size_t n = 1; n <= prompt_.size(); n += std::max<size_t>(1, prompt_.size() / 3)) {
      Sequence sequence(peer.backend, options_.context);
      const size_t step = row_by_row ? 1 : n;
      for (size_t done = 0; done < n; done += step) feed(sequence, tokens(done, done + step));
      compare(sequence, peer.instead != nullptr ? logits_of(peer.instead, tokens(0, n)) : fresh_[n - 1], fmt::format("{} tokens", n));
    }
  }

  TokenId stranger() const { return (prompt_.back() + 1) % backend_->traits().vocab; }

  std::shared_ptr<backend::Backend> backend_;
  std::shared_ptr<Decoder> decoder_;
  const DecoderLaws& options_;
  std::vector<TokenId> prompt_;
  std::vector<LogitsRow> fresh_;  // per number of tokens, less one
  LawBook book_;
};

}  // namespace

double batch_sensitivity(const std::shared_ptr<backend::Backend>& backend, std::span<const TokenId> prompt) {
  double moved = 0;
  LawBook book({[&](const Law& law) { moved = law.relative_difference; }, nullptr});
  book.law("alone = in a batch", 0, [&] {
    Sequence together(backend, 0);
    const auto compare_alone = [&](int i, std::span<const float> row) {
      Sequence alone(backend, 0);
      if (alone.append(prompt.first(static_cast<size_t>(i) + 1)) == AppendStatus::kDone) book.compare(row, alone.logits(), "");
    };
    if (together.append_and_see(prompt, compare_alone) != AppendStatus::kDone)
      throw Error(Code::kTooLarge, "the prompt does not fit into the context");
  });
  return moved;
}

std::vector<Law> verify_decoder(std::shared_ptr<backend::Backend> backend, const DecoderLaws& options, const Watch& watch) {
  if (options.prompt.size() < 2)
    throw Error(Code::kBadArgument,
                fmt::format("the prompt has {} token(s); at least 2 are needed to verify anything", options.prompt.size()));
  return Verifier(std::move(backend), options, watch).run();
}

}  // namespace kvik::laws

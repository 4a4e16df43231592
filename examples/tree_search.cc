// Connect four with a tree search (PUCT, as in AlphaZero). The policy model reads the moves of a game; its logits are the next move and the
// result. Plays a game, the search against the policy alone, then repeats the search at three of its positions with the leaves evaluated in
// four ways: the logits must be equal bit for bit, and leaves per second are printed.
// usage: example-tree_search [MODEL] [SIMULATIONS] [ROUNDS]
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kvik/kvik.h"

namespace {

using kvik::Model;
using kvik::Session;
using kvik::TokenId;

// ---- the game

constexpr int kColumns = 7, kRows = 6;
constexpr TokenId kStart = kColumns * kRows;  // smaller tokens are moves: column + 7 * row
constexpr size_t kResults = kStart + 1;       // logits of win, draw and loss for the player to move
constexpr int kBatch = 32;                    // leaves that are evaluated together

class Board {
 public:
  bool is_playable(int column) const { return height_[static_cast<size_t>(column)] < kRows; }
  TokenId token(int column) const { return column + kColumns * height_[static_cast<size_t>(column)]; }
  int n_moves() const { return n_moves_; }
  bool is_full() const { return n_moves_ == kColumns * kRows; }
  // By the player who moved last.
  bool is_won() const {
    const uint64_t stones = stones_[static_cast<size_t>(n_moves_ + 1) % 2];
    return std::ranges::any_of(std::array{1, 6, 7, 8}, [&](int step) {
      const uint64_t pairs = stones & (stones >> step);
      return (pairs & (pairs >> 2 * step)) != 0;
    });
  }

  void play(int column) {
    int& height = height_[static_cast<size_t>(column)];
    stones_[static_cast<size_t>(n_moves_) % 2] |= bit(column, height);
    ++height;
    ++n_moves_;
  }

  void print() const {
    for (int row = kRows; row-- > 0;) {
      std::cout << "  ";
      for (int column = 0; column < kColumns; ++column)
        std::cout << ((stones_[0] & bit(column, row)) != 0 ? " X" : (stones_[1] & bit(column, row)) != 0 ? " O" : " .");
      std::cout << "\n";
    }
    std::cout << "   1 2 3 4 5 6 7\n";
  }

 private:
  // One empty row above each column, so that a line does not continue in the next one.
  static uint64_t bit(int column, int row) { return uint64_t{1} << (column * (kRows + 1) + row); }

  std::array<uint64_t, 2> stones_{};
  std::array<int, kColumns> height_{};
  int n_moves_ = 0;
};

// ---- the search

struct Node {
  int parent = -1;
  int column = 0;
  TokenId token = 0;
  float prior = 0;
  int first_child = 0;  // 0: not expanded
  int n_children = 0;
  int n_visits = 0;
  float value_sum = 0;  // for the player who moved here
  bool is_pending = false;
};

class Tree {
 public:
  Tree(const Board& board, std::span<const float> root_logits) : board_(board), nodes_(1) { expand(0, board, root_logits); }

  const Node& operator[](int node) const { return nodes_[static_cast<size_t>(node)]; }
  int size() const { return static_cast<int>(nodes_.size()); }
  int most_visited_move() const { return best_move(&Node::n_visits); }
  int likeliest_move() const { return best_move(&Node::prior); }

  // Up to kBatch leaves whose logits are needed; games that end count as visits at once. False after `n_visits` visits of the root.
  bool collect(int n_visits, std::vector<int>& leaves) {
    leaves.clear();
    while (leaves.size() < kBatch && at(0).n_visits < n_visits) {
      const auto [leaf, board] = descend();
      if (at(leaf).is_pending) {  // and so would be all that follow
        take_back(leaf);
        break;
      }
      if (board.is_won() || board.is_full()) {
        back_up(leaf, board.is_won() ? 1.0f : 0.0f);
      } else {
        at(leaf).is_pending = true;
        leaves.push_back(leaf);
      }
    }
    return !leaves.empty();
  }

  void evaluated(int leaf, std::span<const float> logits) {
    at(leaf).is_pending = false;
    expand(leaf, board_at(leaf), logits);
    back_up(leaf, -value_of(logits));
  }

 private:
  Node& at(int node) { return nodes_[static_cast<size_t>(node)]; }
  std::span<const Node> children(int node) const {
    return std::span(nodes_).subspan(static_cast<size_t>((*this)[node].first_child), static_cast<size_t>((*this)[node].n_children));
  }
  template <class By>
  int best_move(By by) const {
    return static_cast<int>(&*std::ranges::max_element(children(0), {}, by) - nodes_.data());
  }

  // For the player to move: probability of a win minus that of a loss.
  static float value_of(std::span<const float> logits) {
    const std::span<const float> result = logits.subspan(kResults, 3);
    const float largest = std::ranges::max(result);
    const float win = std::exp(result[0] - largest), draw = std::exp(result[1] - largest), loss = std::exp(result[2] - largest);
    return (win - loss) / (win + draw + loss);
  }

  Board board_at(int node) const {
    if (node == 0) return board_;
    Board board = board_at((*this)[node].parent);
    board.play((*this)[node].column);
    return board;
  }

  void expand(int node, const Board& board, std::span<const float> logits) {
    const int first = size();
    float sum = 0;
    for (int column = 0; column < kColumns; ++column) {
      if (!board.is_playable(column)) continue;
      const TokenId token = board.token(column);
      const float weight = std::exp(logits[static_cast<size_t>(token)]);
      nodes_.push_back({.parent = node, .column = column, .token = token, .prior = weight});
      sum += weight;
    }
    for (int child = first; child < size(); ++child) at(child).prior /= sum;
    at(node).first_child = first;
    at(node).n_children = size() - first;
  }

  std::pair<int, Board> descend() {
    Board board = board_;
    int node = 0;
    visit(node);
    while (at(node).first_child != 0) {
      const float explore = 1.5f * std::sqrt(static_cast<float>(at(node).n_visits));
      const auto score = [&](const Node& child) {
        const auto n = static_cast<float>(child.n_visits);
        return (n > 0 ? child.value_sum / n : 0) + explore * child.prior / (1 + n);
      };
      node = static_cast<int>(&*std::ranges::max_element(children(node), {}, score) - nodes_.data());
      board.play(at(node).column);
      visit(node);
    }
    return {node, board};
  }

  // A visit counts as a loss until its value is there, so that the next descent takes another way.
  void visit(int node) {
    at(node).n_visits += 1;
    at(node).value_sum -= 1;
  }
  void take_back(int leaf) {
    for (int node = leaf; node >= 0; node = at(node).parent) {
      at(node).n_visits -= 1;
      at(node).value_sum += 1;
    }
  }
  // The value for the player who moved to `leaf`.
  void back_up(int leaf, float value) {
    for (int node = leaf; node >= 0; node = at(node).parent, value = -value) at(node).value_sum += 1 + value;
  }

  Board board_;
  std::vector<Node> nodes_;  // the children of a node are neighbors
};

// ---- four ways to evaluate leaves

void append(Session& session, std::span<const TokenId> tokens) {
  if (session.append(tokens) != kvik::AppendStatus::kDone) throw std::length_error("the model's context is too short for a game");
}

// Holds the tokens of a game, and finds the logits after nodes of a tree whose root is there.
class Evaluator {
 public:
  Evaluator(const Model& model, std::span<const TokenId> game) : model_(model), game_(model.session()) { append(game_, game); }
  virtual ~Evaluator() = default;

  // Adds [leaf][vocab] to `logits`. The parents of the leaves were leaves before, or are the root.
  virtual void evaluate(const Tree& tree, std::span<const int> leaves, std::vector<float>& logits) = 0;
  // A child of the root; the tree is not used afterwards.
  virtual void play(const Tree& tree, int node) { append(game_, std::array{tree[node].token}); }

  std::span<const float> root_logits() { return game_.logits(); }
  std::span<const TokenId> game() const { return game_.tokens(); }
  size_t n_rows() const { return n_rows_; }  // tokens computed by evaluate()
  size_t cache_bytes() const { return model_.cache_use().used_bytes - model_.cache_use().prefix_bytes; }

 protected:
  static void add(std::span<const float> row, std::vector<float>& logits) { logits.insert(logits.end(), row.begin(), row.end()); }

  Model model_;
  Session game_;
  size_t n_rows_ = 0;
};

class Recomputing : public Evaluator {
 public:
  using Evaluator::Evaluator;
  void evaluate(const Tree& tree, std::span<const int> leaves, std::vector<float>& logits) override {
    for (const int leaf : leaves) {
      std::vector<TokenId> tokens;
      for (int node = leaf; node > 0; node = tree[node].parent) tokens.push_back(tree[node].token);
      tokens.insert(tokens.end(), game_.tokens().rbegin(), game_.tokens().rend());
      std::ranges::reverse(tokens);
      Session session = model_.session();
      append(session, tokens);
      n_rows_ += tokens.size();
      add(session.logits(), logits);
    }
  }
};

// Every node has a session of its own, which shares the past of its parent.
class Forking : public Evaluator {
 public:
  Forking(const Model& model, std::span<const TokenId> game, bool is_joined) : Evaluator(model, game), is_joined_(is_joined) {}

  void evaluate(const Tree& tree, std::span<const int> leaves, std::vector<float>& logits) override {
    sessions_.resize(static_cast<size_t>(tree.size()));
    std::vector<TokenId> tokens;
    std::vector<Session*> forks;
    for (const int leaf : leaves) {
      const int parent = tree[leaf].parent;
      std::optional<Session>& session = sessions_[static_cast<size_t>(leaf)];
      session = parent == 0 ? game_.fork() : sessions_[static_cast<size_t>(parent)]->fork();
      tokens.push_back(tree[leaf].token);
      forks.push_back(&*session);
      if (!is_joined_) append(*session, std::span(&tokens.back(), 1));
    }
    if (is_joined_ && model_.step(forks, tokens) != kvik::AppendStatus::kDone) throw std::length_error("the model's context is full");
    n_rows_ += tokens.size();
    for (Session* session : forks) add(session->logits(), logits);
  }

  void play(const Tree& tree, int node) override {
    if (static_cast<size_t>(node) < sessions_.size() && sessions_[static_cast<size_t>(node)]) {
      game_ = std::move(*sessions_[static_cast<size_t>(node)]);
    } else {
      Evaluator::play(tree, node);
    }
    sessions_.clear();
  }

 private:
  bool is_joined_;
  std::vector<std::optional<Session>> sessions_;  // [node]
};

// All leaves and the nodes between them and the root are rows of one run. Nothing is kept but the game: the nodes are computed again in the
// next run.
class Batching : public Evaluator {
 public:
  using Evaluator::Evaluator;
  void evaluate(const Tree& tree, std::span<const int> leaves, std::vector<float>& logits) override {
    tokens_.clear();
    parents_.clear();
    rows_.assign(static_cast<size_t>(tree.size()), -1);
    for (const int leaf : leaves) row_of(tree, leaf);
    const kvik::TreeLogits found = game_.append_tree(tokens_, parents_);
    if (found.status() != kvik::AppendStatus::kDone) throw std::length_error("the model's context is full");
    n_rows_ += tokens_.size();
    for (const int leaf : leaves) add(found[row_of(tree, leaf)], logits);
  }

  void play(const Tree& tree, int node) override {
    if (static_cast<size_t>(node) < rows_.size() && rows_[static_cast<size_t>(node)] >= 0) {
      game_.keep(rows_[static_cast<size_t>(node)]);
    } else {
      Evaluator::play(tree, node);
    }
    rows_.clear();
  }

 private:
  int row_of(const Tree& tree, int node) {
    if (node == 0) return -1;
    int& row = rows_[static_cast<size_t>(node)];
    if (row < 0) {
      parents_.push_back(row_of(tree, tree[node].parent));
      tokens_.push_back(tree[node].token);
      row = static_cast<int>(tokens_.size()) - 1;
    }
    return row;
  }

  std::vector<TokenId> tokens_;
  std::vector<int> parents_;
  std::vector<int> rows_;  // [node]; -1: not in the last run
};

// ---- playing and measuring

struct Search {
  Tree tree;
  std::vector<float> logits;  // [leaf][vocab]
  size_t n_leaves = 0;
};

Search search(const Board& board, Evaluator& evaluator, int n_simulations) {
  Search result{.tree = Tree(board, evaluator.root_logits())};
  std::vector<int> leaves;
  while (result.tree.collect(n_simulations, leaves)) {
    const size_t start = result.logits.size();
    evaluator.evaluate(result.tree, leaves, result.logits);
    const size_t vocab = (result.logits.size() - start) / leaves.size();
    for (size_t i = 0; i < leaves.size(); ++i) result.tree.evaluated(leaves[i], std::span(result.logits).subspan(start + i * vocab, vocab));
    result.n_leaves += leaves.size();
  }
  return result;
}

// X searches, O plays the move that the policy likes best. Returns the tokens of the game.
std::vector<TokenId> play_game(const Model& model, int n_simulations) {
  Batching evaluator(model, std::array{kStart});
  Board board;
  std::cout << "X searches, O plays what the policy likes best:";
  while (!board.is_won() && !board.is_full()) {
    const bool is_x = board.n_moves() % 2 == 0;
    const Tree tree = search(board, evaluator, is_x ? n_simulations : 0).tree;
    const int move = is_x ? tree.most_visited_move() : tree.likeliest_move();
    evaluator.play(tree, move);
    board.play(tree[move].column);
    std::cout << " " << tree[move].column + 1;
  }
  std::cout << "\n";
  board.print();
  std::cout << (!board.is_won()            ? "a draw"
                : board.n_moves() % 2 == 1 ? "X wins"
                                           : "O wins")
            << " after " << board.n_moves() << " moves\n\n";
  return {evaluator.game().begin(), evaluator.game().end()};
}

struct Contender {
  std::string name;
  std::function<std::unique_ptr<Evaluator>(std::span<const TokenId> game)> make;
};

std::vector<Contender> contenders(const Model& model, const Model& without_reuse) {
  using Game = std::span<const TokenId>;
  return {{"recompute the prefix", [=](Game game) { return std::make_unique<Recomputing>(without_reuse, game); }},
          {"fork() and append()", [=](Game game) { return std::make_unique<Forking>(model, game, false); }},
          {"fork(), one step() for all", [=](Game game) { return std::make_unique<Forking>(model, game, true); }},
          {"append_tree() and keep()", [=](Game game) { return std::make_unique<Batching>(model, game); }}};
}

bool have_equal_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, {}, std::bit_cast<uint32_t, float>, std::bit_cast<uint32_t, float>);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Figures {
  std::vector<double> leaves_per_s;  // of each round
  double rows_per_leaf = 0;
  double cache_mb = 0;  // used by the search
};

// [contender]; they take turns. Throws if their logits differ.
std::vector<Figures> measure(std::span<const Contender> contenders, std::span<const TokenId> game, int n_simulations, int n_rounds) {
  Board board;
  for (const TokenId token : game.subspan(1)) board.play(token % kColumns);
  std::vector<float> expected;
  std::vector<Figures> figures(contenders.size());
  for (int round = 0; round < n_rounds; ++round) {
    for (size_t i = 0; i < contenders.size(); ++i) {
      const std::unique_ptr<Evaluator> evaluator = contenders[i].make(game);
      const size_t bytes_before = evaluator->cache_bytes();
      const auto start = std::chrono::steady_clock::now();
      const Search found = search(board, *evaluator, n_simulations);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      figures[i].leaves_per_s.push_back(static_cast<double>(found.n_leaves) / seconds.count());
      figures[i].rows_per_leaf = static_cast<double>(evaluator->n_rows()) / static_cast<double>(found.n_leaves);
      figures[i].cache_mb = static_cast<double>(evaluator->cache_bytes() - bytes_before) / 1e6;
      if (expected.empty()) expected = found.logits;
      if (!have_equal_bits(found.logits, expected)) throw std::runtime_error(contenders[i].name + ": the logits differ");
    }
  }
  return figures;
}

void print_figures(std::span<const Contender> contenders, std::span<const TokenId> game, int n_simulations, int n_rounds) {
  std::vector<std::vector<Figures>> columns;
  std::printf("%-28s", "leaves per second");
  for (size_t quarter = 1; quarter < 4; ++quarter) {
    const size_t n_moves = (game.size() - 1) * quarter / 4;
    columns.push_back(measure(contenders, game.first(n_moves + 1), n_simulations, n_rounds));
    std::printf("   after %2zu moves", n_moves);
  }
  std::printf("   rows per leaf   cache\n");
  for (size_t i = 0; i < contenders.size(); ++i) {
    std::printf("%-28s", contenders[i].name.c_str());
    for (const std::vector<Figures>& column : columns)
      std::printf("%10.0f %5.1fx", median(column[i].leaves_per_s), median(column[i].leaves_per_s) / median(column.front().leaves_per_s));
    std::printf("%16.1f %4.1f MB\n", columns.back()[i].rows_per_leaf, columns.back()[i].cache_mb);
  }
  std::printf("The logits of all leaves are equal bit for bit.\n");
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string path = argc > 1 ? argv[1] : "connect-four";
  const int n_simulations = argc > 2 ? std::stoi(argv[2]) : 800;
  const int n_rounds = argc > 3 ? std::stoi(argv[3]) : 5;
  const Model model = Model::load(path);
  const Model without_reuse = Model::load(path, {.reuse_prefixes = false});  // its new sessions compute all of their tokens
  const std::vector<TokenId> game = play_game(model, n_simulations);
  print_figures(contenders(model, without_reuse), game, n_simulations, n_rounds);
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 1;
}

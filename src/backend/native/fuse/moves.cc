// Merges moves of moves and removes moves of contiguous elements: a part that is contiguous in the source is read there, and
// a row that is only repeated is broadcast by the op that reads it.
#include <algorithm>
#include <map>
#include <optional>

#include "backend/native/fuse/passes.h"
#include "backend/native/fuse/rewriter.h"

namespace kvik::native {
namespace {

// A run of elements that is contiguous in both the source and the result.
struct Piece {
  Input::Kind kind = Input::Kind::kNone;
  int32_t index = -1;
  int64_t from = 0, to = 0, count = 0;

  bool continues(const Piece& before) const {
    return kind == before.kind && index == before.index && from == before.from + before.count && to == before.to + before.count;
  }
};
using Pieces = std::vector<Piece>;  // by `to`, without gaps

void add(Pieces& pieces, const Piece& piece) {
  if (!pieces.empty() && piece.continues(pieces.back())) {
    pieces.back().count += piece.count;
  } else {
    pieces.push_back(piece);
  }
}

Pieces pieces_of(const Op& op) {
  std::vector<Move::Run> runs = op.as<Move>()->runs;
  std::sort(runs.begin(), runs.end(), [](const Move::Run& a, const Move::Run& b) { return a.to < b.to; });
  Pieces pieces;
  for (const Move::Run& run : runs) {
    const Input& in = op.in[static_cast<size_t>(run.input)];
    add(pieces, {in.kind, in.index, in.offset + run.from, run.to, run.count});
  }
  return pieces;
}

// The runs that elements [first, first + count) come from, with `to` as their place in the result.
Pieces window(const Pieces& pieces, int64_t first, int64_t count, int64_t to) {
  Pieces seen;
  auto piece = std::upper_bound(pieces.begin(), pieces.end(), first, [](int64_t x, const Piece& p) { return x < p.to; });
  if (piece != pieces.begin()) --piece;
  for (; piece != pieces.end() && piece->to < first + count; ++piece) {
    const int64_t begin = std::max(piece->to, first), end = std::min(piece->to + piece->count, first + count);
    if (end > begin) seen.push_back({piece->kind, piece->index, piece->from + begin - piece->to, to + begin - first, end - begin});
  }
  return seen;
}

// A value whose elements, or whose rows, are repeated.
struct Repeated {
  Spread spread = Spread::kAll;
  int64_t groups = 1;
  Input input;
};

std::optional<Repeated> repeated(const Pieces& pieces, int64_t n) {
  const Piece& first = pieces.front();
  if (first.kind != Input::Kind::kValue) return {};
  std::vector<int64_t> from;  // of each element, counted from the first
  for (const Piece& piece : pieces) {
    if (piece.kind != first.kind || piece.index != first.index) return {};
    for (int64_t i = 0; i < piece.count; ++i) from.push_back(piece.from + i - first.from);
  }
  size_t times = 1, period = 1;
  while (times < from.size() && from[times] == 0) ++times;
  while (period < from.size() && from[period] == static_cast<int64_t>(period)) ++period;
  const bool elements = times > 1;
  if (from.size() % (elements ? times : period) != 0) return {};
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != static_cast<int64_t>(elements ? i / times : i % period)) return {};
  }
  const int64_t size = elements ? n / static_cast<int64_t>(times) : static_cast<int64_t>(period);
  const Spread spread = size == 1 ? Spread::kOne : elements ? Spread::kPerGroup : Spread::kEvery;
  return Repeated{spread, elements ? size : n / size, {Input::Kind::kValue, first.index, first.from, size}};
}

class Moves {
 public:
  explicit Moves(Plan& plan) : rewriter_(plan, "moves"), plan_(plan) {}

  int run() {
    // First all operands are redirected to the sources of moves; then it is known which moves are still needed.
    for (OpIndex i = 0; i < rewriter_.size(); ++i) {
      if (rewriter_.is_dead(i)) continue;
      if (rewriter_.op(i).as<Move>() != nullptr) {
        look_at(i);
        continue;
      }
      read_sources(i);
      if (rewriter_.op(i).as<BinaryOp>() == nullptr) continue;
      spread(i, 0);
      spread(i, 1);
    }
    for (OpIndex i = 0; i < rewriter_.size(); ++i) {
      if (!rewriter_.is_dead(i) && rewriter_.op(i).as<Move>() != nullptr) compose(i);
    }
    return rewriter_.finish();
  }

 private:
  struct Moved {
    Pieces own;  // as the move is written
    Pieces all;  // through all moves before it
  };

  const Moved* moved(ValueIndex value) const {
    const auto known = moved_.find(value);
    return known == moved_.end() ? nullptr : &known->second;
  }
  const Pieces* all_of(const Piece& piece) const {
    const Moved* made = piece.kind == Input::Kind::kValue ? moved(piece.index) : nullptr;
    return made == nullptr ? nullptr : &made->all;
  }

  void look_at(OpIndex i) {
    Moved made;
    made.own = pieces_of(rewriter_.op(i));
    for (const Piece& piece : made.own) {
      const Pieces* before = all_of(piece);
      const Pieces seen = before == nullptr ? Pieces{piece} : window(*before, piece.from, piece.count, piece.to);
      for (const Piece& part : seen) add(made.all, part);
    }
    const ValueIndex out = rewriter_.op(i).out.front();
    const Piece first = made.all.front();
    if (made.all.size() == 1 && first.kind == Input::Kind::kValue && first.count == plan_.value(out).size) {
      rewriter_.redirect(out, {Input::Kind::kValue, first.index, first.from, first.count});
      rewriter_.count();
      return;
    }
    moved_[out] = std::move(made);
  }

  void read_sources(OpIndex i) {
    for (size_t input = 0; input < rewriter_.op(i).in.size(); ++input) {
      const Input x = rewriter_.op(i).in[input];
      const Moved* made = x.is_value() ? moved(x.index) : nullptr;
      if (made == nullptr) continue;
      for (const Pieces* pieces : {&made->all, &made->own}) {
        const Pieces seen = window(*pieces, x.offset, x.size, 0);
        if (seen.size() != 1 || seen.front().kind != Input::Kind::kValue || seen.front().count != x.size) continue;
        rewriter_.set_input(i, input, {Input::Kind::kValue, seen.front().index, seen.front().from, x.size});
        rewriter_.count();
        break;
      }
    }
  }

  void compose(OpIndex i) {
    Pieces all;
    bool changed = false;
    for (const Piece& piece : moved_.at(rewriter_.op(i).out.front()).own) {
      const Pieces* before = all_of(piece);
      const Pieces seen = before == nullptr ? Pieces{piece} : window(*before, piece.from, piece.count, piece.to);
      // If a move is kept for other readers and gathers elements, reading its result is cheaper.
      const bool worth = before != nullptr && (seen.size() == 1 || plan_.has_one_consumer(piece.index));
      changed = changed || worth;
      for (const Piece& part : worth ? seen : Pieces{piece}) add(all, part);
    }
    if (!changed) return;
    become(i, all);
    rewriter_.count();
  }

  void become(OpIndex i, const Pieces& pieces) {
    Move move;
    std::vector<Input> in;
    std::map<std::pair<Input::Kind, int32_t>, int32_t> inputs;
    for (const Piece& piece : pieces) {
      const auto [known, fresh] = inputs.try_emplace({piece.kind, piece.index}, static_cast<int32_t>(in.size()));
      if (fresh) in.push_back(whole(piece));
      move.runs.push_back({known->second, piece.from, piece.to, piece.count});
    }
    rewriter_.become(i, std::move(move), std::move(in));
  }

  Input whole(const Piece& piece) const {
    const auto at = static_cast<size_t>(piece.index);
    if (piece.kind == Input::Kind::kValue) return plan_.whole(piece.index);
    if (piece.kind == Input::Kind::kTable) return {piece.kind, piece.index, 0, plan_.tables[at].size};
    return {piece.kind, piece.index, 0, plan_.constants[at].size()};
  }

  // A repeated row, or repeated elements, without the copies.
  void spread(OpIndex i, size_t side) {
    BinaryOp binary = *rewriter_.op(i).as<BinaryOp>();
    Spread& own = side == 0 ? binary.a : binary.b;
    const Spread other = side == 0 ? binary.b : binary.a;
    const Input x = rewriter_.op(i).in[side];
    const Moved* made = own == Spread::kAll && plan_.is_whole(x) ? moved(x.index) : nullptr;
    const std::optional<Repeated> found = made == nullptr ? std::nullopt : repeated(made->all, x.size);
    if (!found) return;
    const bool free = other == Spread::kAll || other == Spread::kOne;
    if (!free && binary.groups != found->groups && found->spread != Spread::kOne) return;
    own = found->spread;
    if (own != Spread::kOne) binary.groups = found->groups;
    std::vector<Input> in = rewriter_.op(i).in;
    in[side] = found->input;
    rewriter_.become(i, binary, std::move(in));
    rewriter_.count();
  }

  Rewriter rewriter_;
  Plan& plan_;
  std::map<ValueIndex, Moved> moved_;
};

}  // namespace

int fuse_moves(Plan& plan) { return Moves(plan).run(); }

}  // namespace kvik::native

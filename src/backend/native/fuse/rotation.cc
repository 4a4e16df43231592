#include "backend/native/fuse/rotation.h"

#include <algorithm>

#include "backend/native/fuse/rewriter.h"

namespace kvik::native {
namespace {

constexpr int kDeepest = 24;

bool is_sign(float x) { return x == 1.0f || x == -1.0f; }

// Which of an element's two terms is its own, and which one its partner's.
struct Turn {
  LinearForm::Term own, partner;
};

struct Shape {
  int64_t head_dim = 0, n_pairs = 0;
  bool interleaved = false;
};

using Element = LinearForm::Element;

bool same_sources(const Element& a, const Element& b) {
  if (a.n_terms != 2 || b.n_terms != 2) return false;
  const auto sorted = [](const Element& e) { return std::minmax(e.terms[0].element, e.terms[1].element); };
  return std::pair<int64_t, int64_t>(sorted(a)) == std::pair<int64_t, int64_t>(sorted(b));
}

bool has_factor(const Element& element, const TableElement& factor) {
  return element.terms[0].factor == factor || element.terms[1].factor == factor;
}

// The structure of the first head; all heads are then checked against it.
std::optional<Shape> guess_shape(const std::vector<Element>& elements) {
  const size_t n = elements.size();
  if (n < 2 || elements[0].n_terms != 2) return {};
  size_t partner = 1;
  while (partner < n && !same_sources(elements[0], elements[partner])) ++partner;
  if (partner == n) return {};
  size_t turned = 0;  // number of rotated elements, from the start
  while (turned < n && elements[turned].n_terms == 2) ++turned;
  Shape shape;
  shape.interleaved = partner == 1 && n > 2 && !(turned == 2);
  if (!shape.interleaved) {
    shape.n_pairs = static_cast<int64_t>(partner);
    shape.head_dim = 2 * shape.n_pairs;
  } else {
    // The next head begins where the first angle occurs again.
    size_t next = 2;
    while (next < turned &&
           !(has_factor(elements[next], elements[0].terms[0].factor) && has_factor(elements[next], elements[0].terms[1].factor)))
      next += 2;
    shape.n_pairs = static_cast<int64_t>(std::min(next, turned) / 2);
    shape.head_dim = 2 * shape.n_pairs;
  }
  if (turned == static_cast<size_t>(2 * shape.n_pairs)) {  // followed by unrotated elements, up to the next head
    size_t next = turned;
    while (next < n && elements[next].n_terms == 1) ++next;
    shape.head_dim = static_cast<int64_t>(next);
  }
  if (static_cast<int64_t>(n) % shape.head_dim != 0 || shape.n_pairs < 1) return {};
  return shape;
}

// One of four products is negative, and it is a partner's.
std::optional<std::pair<Turn, Turn>> as_pair(const Element& a, const Element& b) {
  if (!same_sources(a, b)) return {};
  const int64_t u = a.terms[0].element;
  const LinearForm::Term &au = a.terms[0], &av = a.terms[1];
  const LinearForm::Term &bu = b.terms[b.terms[0].element == u ? 0 : 1], &bv = b.terms[b.terms[0].element == u ? 1 : 0];
  if (au.element == av.element) return {};
  for (const LinearForm::Term* term : {&au, &av, &bu, &bv}) {
    if (term->factor.table < 0) return {};
  }
  if (au.sign > 0 && bv.sign > 0 && av.sign == -bu.sign) return {{{au, av}, {bv, bu}}};
  if (av.sign > 0 && bu.sign > 0 && au.sign == -bv.sign) return {{{av, au}, {bu, bv}}};
  return {};
}

bool take_pair(Rotation& rotation, int64_t head, int64_t pair, const std::pair<Turn, Turn>& turns) {
  const auto& [first, second] = turns;
  const bool negative = first.partner.sign > 0;
  if (head == 0) {
    if (pair == 0) rotation.negative = negative;
    rotation.cos[0].push_back(first.own.factor);
    rotation.cos[1].push_back(second.own.factor);
    rotation.sin[0].push_back(first.partner.factor);
    rotation.sin[1].push_back(second.partner.factor);
  }
  const auto p = static_cast<size_t>(pair);
  return negative == rotation.negative && rotation.cos[0][p] == first.own.factor && rotation.cos[1][p] == second.own.factor &&
         rotation.sin[0][p] == first.partner.factor && rotation.sin[1][p] == second.partner.factor;
}

}  // namespace

std::optional<Rotation> as_rotation(const LinearForm& form) {
  const std::optional<Shape> shape = guess_shape(form.elements);
  if (!shape) return {};
  const auto n = static_cast<int64_t>(form.elements.size());
  Rotation rotation{n / shape->head_dim, shape->head_dim, shape->n_pairs, shape->interleaved};
  rotation.from.resize(form.elements.size());
  for (int64_t head = 0; head < rotation.n_heads; ++head) {
    const int64_t start = head * shape->head_dim;
    for (int64_t pair = 0; pair < shape->n_pairs; ++pair) {
      const auto a = static_cast<size_t>(start + (shape->interleaved ? 2 * pair : pair));
      const size_t b = a + static_cast<size_t>(shape->interleaved ? 1 : shape->n_pairs);
      const auto turns = as_pair(form.elements[a], form.elements[b]);
      if (!turns || !take_pair(rotation, head, pair, *turns)) return {};
      rotation.from[a] = turns->first.own.element;
      rotation.from[b] = turns->second.own.element;
    }
    for (int64_t i = start + 2 * shape->n_pairs; i < start + shape->head_dim; ++i) {
      const Element& passed = form.elements[static_cast<size_t>(i)];
      if (passed.n_terms != 1 || passed.terms[0].factor.table >= 0 || passed.terms[0].sign != 1.0f) return {};
      rotation.from[static_cast<size_t>(i)] = passed.terms[0].element;
    }
  }
  return rotation;
}

LinearForms::LinearForms(const Plan& plan) : plan_(plan), turned_(plan.values.size()) {
  for (const Op& op : plan.ops) {
    if (op.out.size() != 1) continue;
    const BinaryOp* binary = op.as<BinaryOp>();
    const bool by_table = binary != nullptr && binary->op == Binary::kMul && op.in[1].is_table();
    const UnaryOp* unary = op.as<UnaryOp>();
    const bool linear = op.as<Move>() != nullptr || (unary != nullptr && unary->op == Unary::kNeg) ||
                        (binary != nullptr && (binary->op == Binary::kAdd || binary->op == Binary::kSub || binary->op == Binary::kMul));
    const bool from_turned =
        std::any_of(op.in.begin(), op.in.end(), [&](const Input& x) { return x.is_value() && turned_[static_cast<size_t>(x.index)]; });
    turned_[static_cast<size_t>(op.out.front())] = by_table || (linear && from_turned);
  }
}

bool LinearForms::can_expand(const Op& op) const {
  if (op.out.size() != 1) return false;
  if (op.as<Move>() != nullptr) return true;
  if (const UnaryOp* unary = op.as<UnaryOp>()) return unary->op == Unary::kNeg;
  const BinaryOp* binary = op.as<BinaryOp>();
  if (binary == nullptr || binary->a != Spread::kAll || !op.in[0].is_value()) return false;
  const auto turned = [&](const Input& x) { return x.is_value() && is_turned(x.index); };
  if (binary->op == Binary::kAdd || binary->op == Binary::kSub) return binary->b == Spread::kAll && turned(op.in[0]) && turned(op.in[1]);
  if (binary->op != Binary::kMul) return false;
  const std::span<const float> constant = plan_.floats(op.in[1]);
  return op.in[1].is_table() || (!constant.empty() && std::all_of(constant.begin(), constant.end(), is_sign));
}

std::optional<LinearForm> LinearForms::of(ValueIndex value) {
  Memo memo;
  return build(value, 0, memo);
}

std::optional<LinearForm> LinearForms::build(ValueIndex value, int depth, Memo& memo) const {
  if (depth > kDeepest) return {};
  const PlanValue& made = plan_.value(value);
  const Op* op = made.producer == kNoIndex ? nullptr : &plan_.ops[static_cast<size_t>(made.producer)];
  if (op != nullptr && can_expand(*op)) {
    const auto known = memo.find(value);
    if (known != memo.end()) return known->second;
    return memo[value] = expand(*op, depth, memo);
  }
  LinearForm form{value, std::vector<LinearForm::Element>(static_cast<size_t>(made.size))};
  for (size_t i = 0; i < form.elements.size(); ++i) form.elements[i] = {1, {{1.0f, static_cast<int64_t>(i), {}}, {}}};
  return form;
}

std::optional<LinearForm> LinearForms::expand(const Op& op, int depth, Memo& memo) const {
  if (op.as<Move>() != nullptr) return moved(op, depth, memo);
  if (const BinaryOp* binary = op.as<BinaryOp>()) return binary->op == Binary::kMul ? multiplied(op, depth, memo) : added(op, depth, memo);
  std::optional<LinearForm> form = read(op.in[0], depth, memo);
  if (!form) return {};
  for (Element& element : form->elements) {
    for (LinearForm::Term& term : element.terms) term.sign = -term.sign;
  }
  return form;
}

std::optional<LinearForm> LinearForms::read(const Input& input, int depth, Memo& memo) const {
  if (!input.is_value()) return {};
  std::optional<LinearForm> form = build(input.index, depth + 1, memo);
  if (!form || plan_.is_whole(input)) return form;
  const auto first = form->elements.begin() + input.offset;
  form->elements = std::vector<Element>(first, first + input.size);
  return form;
}

std::optional<LinearForm> LinearForms::moved(const Op& op, int depth, Memo& memo) const {
  LinearForm form{kNoIndex, std::vector<Element>(static_cast<size_t>(plan_.value(op.out.front()).size))};
  std::vector<std::optional<LinearForm>> in(op.in.size());
  for (const Move::Run& run : op.as<Move>()->runs) {
    std::optional<LinearForm>& from = in[static_cast<size_t>(run.input)];
    if (!from) from = read(op.in[static_cast<size_t>(run.input)], depth, memo);
    if (!from || (form.source != kNoIndex && form.source != from->source)) return {};
    form.source = from->source;
    std::copy_n(from->elements.begin() + run.from, run.count, form.elements.begin() + run.to);
  }
  return form;
}

std::optional<LinearForm> LinearForms::multiplied(const Op& op, int depth, Memo& memo) const {
  std::optional<LinearForm> form = read(op.in[0], depth, memo);
  if (!form) return {};
  const BinaryOp& mul = *op.as<BinaryOp>();
  const std::span<const float> signs = plan_.floats(op.in[1]);
  const auto n = static_cast<int64_t>(form->elements.size());
  for (int64_t i = 0; i < n; ++i) {
    Element& element = form->elements[static_cast<size_t>(i)];
    const int64_t e = spread_element(mul.b, mul.groups, n, i);
    for (int t = 0; t < element.n_terms; ++t) {
      if (!signs.empty()) {
        element.terms[t].sign *= signs[static_cast<size_t>(e)];
        continue;
      }
      if (element.terms[t].factor.table >= 0) return {};
      element.terms[t].factor = {op.in[1].index, op.in[1].offset + e};
    }
  }
  return form;
}

std::optional<LinearForm> LinearForms::added(const Op& op, int depth, Memo& memo) const {
  std::optional<LinearForm> a = read(op.in[0], depth, memo), b = read(op.in[1], depth, memo);
  if (!a || !b || a->source != b->source) return {};
  const float sign = op.as<BinaryOp>()->op == Binary::kSub ? -1.0f : 1.0f;
  for (size_t i = 0; i < a->elements.size(); ++i) {
    Element& to = a->elements[i];
    if (to.n_terms != 1 || b->elements[i].n_terms != 1) return {};
    to.terms[1] = b->elements[i].terms[0];
    to.terms[1].sign *= sign;
    to.n_terms = 2;
  }
  return a;
}

}  // namespace kvik::native

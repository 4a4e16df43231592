#include "backend/native/specialize/einsum.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace kvik::native {
namespace {

using onnx::ValueId;

bool holds_letter(const std::string& term, char letter) { return term.find(letter) != std::string::npos; }

// Unused letters represent the axes of an ellipsis.
Expected<std::string> expanded_term(const onnx::Node& node, std::string term, size_t n_hidden) {
  const size_t dots = term.find("...");
  if (dots == std::string::npos) return term;
  std::string letters;
  for (size_t i = 0; i < n_hidden; ++i) letters += static_cast<char>('0' + i);
  if (n_hidden > 8) return refuse(node, "its ellipsis covers too many axes");
  return term.replace(dots, 3, letters);
}

std::string implicit_result(const std::vector<std::string>& operands, size_t n_hidden) {
  std::map<char, int> counts;
  for (const std::string& operand : operands) {
    for (const char letter : operand) ++counts[letter];
  }
  std::string result;
  for (size_t i = 0; i < n_hidden; ++i) result += static_cast<char>('0' + i);
  for (const auto& [letter, count] : counts) {
    if (count == 1 && !(letter >= '0' && letter <= '9')) result += letter;
  }
  return result;
}

std::vector<std::string> split_terms(const std::string& left) {
  std::vector<std::string> terms(1);
  for (const char c : left) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  return terms;
}

std::vector<int64_t> permutation(const std::string& from, const std::string& to) {
  std::vector<int64_t> perm;
  for (const char letter : to) perm.push_back(static_cast<int64_t>(from.find(letter)));
  return perm;
}

}  // namespace

Expected<Einsum> Einsum::parse(const onnx::Node& node, const std::vector<size_t>& ranks) {
  std::string equation(node.string_or("equation", ""));
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  Einsum einsum;
  einsum.operands = split_terms(equation.substr(0, arrow));
  if (einsum.operands.size() != ranks.size()) return refuse(node, fmt::format("'{}' is not for {} operands", equation, ranks.size()));
  size_t n_hidden = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    std::string& term = einsum.operands[i];
    const bool hides = term.find("...") != std::string::npos;
    const size_t letters = term.size() - (hides ? 3 : 0);
    if (letters > ranks[i] || (!hides && letters != ranks[i]))
      return refuse(node, fmt::format("'{}' does not match its operands", equation));
    if (hides && n_hidden != 0 && n_hidden != ranks[i] - letters) return refuse(node, "its operands hide different numbers of axes");
    if (hides) n_hidden = ranks[i] - letters;
    KVIK_TRY(term, expanded_term(node, std::move(term), n_hidden));
  }
  KVIK_TRY(einsum.result, arrow == std::string::npos ? Expected<std::string>(implicit_result(einsum.operands, n_hidden))
                                                     : expanded_term(node, equation.substr(arrow + 2), n_hidden));
  std::vector<std::string> all = einsum.operands;
  all.push_back(einsum.result);
  for (std::string term : all) {
    std::sort(term.begin(), term.end());
    if (std::adjacent_find(term.begin(), term.end()) != term.end()) return refuse(node, "an operand has one axis twice");
  }
  for (const char letter : einsum.result) {
    const auto known = [&](const std::string& term) { return holds_letter(term, letter); };
    if (std::none_of(einsum.operands.begin(), einsum.operands.end(), known)) return refuse(node, "its result has an axis of its own");
  }
  return einsum;
}

Expected<bool> expand_einsum(NodeExpander& expander) {
  if (expander.node().inputs.size() != 2 || !expander.is_row(0) || !expander.is_row(1)) return false;
  KVIK_TRY(const size_t rank_a, expander.rank(0));
  KVIK_TRY(const size_t rank_b, expander.rank(1));
  KVIK_TRY(const Einsum einsum, Einsum::parse(expander.node(), {rank_a, rank_b}));
  const std::string &a = einsum.operands[0], &b = einsum.operands[1], &out = einsum.result;
  std::string batch, free_a, free_b, summed;
  for (const char letter : a) {
    const bool in_b = holds_letter(b, letter), in_out = holds_letter(out, letter);
    if (!in_b && !in_out) return false;
    (in_b ? (in_out ? batch : summed) : free_a) += letter;
  }
  for (const char letter : b) {
    if (holds_letter(a, letter)) continue;
    if (!holds_letter(out, letter)) return false;
    free_b += letter;
  }
  if (summed.size() != 1 || free_a.size() > 1 || free_b.size() > 1) return false;
  const auto transposed = [&](ValueId value, const std::string& from, const std::string& to) {
    return expander.add({.op = "Transpose", .inputs = {value}, .attributes = {{"perm", permutation(from, to)}}});
  };
  ValueId left = transposed(expander.input(0), a, batch + free_a + summed);
  ValueId right = transposed(expander.input(1), b, batch + summed + free_b);
  if (free_a.empty()) left = expander.add({.op = "Unsqueeze", .inputs = {left, expander.ints({-2})}});
  if (free_b.empty()) right = expander.add({.op = "Unsqueeze", .inputs = {right, expander.ints({-1})}});
  ValueId product = expander.add({.op = "MatMul", .inputs = {left, right}});
  if (free_b.empty()) product = expander.add({.op = "Squeeze", .inputs = {product, expander.ints({-1})}});
  if (free_a.empty()) product = expander.add({.op = "Squeeze", .inputs = {product, expander.ints({free_b.empty() ? -1 : -2})}});
  const std::string made = batch + free_a + free_b;
  expander.into({expander.output(0)}, {.op = "Transpose", .inputs = {product}, .attributes = {{"perm", permutation(made, out)}}});
  return true;
}

}  // namespace kvik::native

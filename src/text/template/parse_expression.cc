#include <algorithm>

#include "text/template/parser.h"

namespace kvik::text::jinja {
namespace {

ExprPtr constant(Value value, int line) { return std::make_unique<ConstExpr>(std::move(value), line); }

}  // namespace

ExprPtr Parser::parse_expression(bool with_conditional) {
  const Depth depth(*this, kExpressionWeight);
  return with_conditional ? parse_conditional() : parse_or();
}

// One expression, or several separated by commas.
ExprPtr Parser::parse_tuple(bool with_conditional, std::string_view end_name, bool in_parentheses) {
  auto tuple = std::make_unique<ItemsExpr>(ExprType::kTuple, current().line);
  bool has_comma = false;
  for (;;) {
    const bool at_end = current().is(TokenType::kVariableEnd) || current().is(TokenType::kBlockEnd) || current().is_operator(")") ||
                        (!end_name.empty() && current().is_name(end_name));
    if (at_end) break;
    tuple->items.push_back(parse_expression(with_conditional));
    if (!skip_operator(",")) break;
    has_comma = true;
  }
  if (has_comma || (in_parentheses && tuple->items.empty())) return finish(std::move(tuple));
  if (tuple->items.empty()) fail_here(fmt::format("an expression was expected, found {}", describe_current()));
  return std::move(tuple->items.front());
}

ExprPtr Parser::parse_conditional() {
  ExprPtr value = parse_or();
  while (current().is_name("if")) {
    auto node = std::make_unique<ConditionalExpr>(next().line);
    node->value = std::move(value);
    node->test = parse_or();
    if (skip_name("else")) {
      const Depth depth(*this, kExpressionWeight);
      node->otherwise = parse_conditional();
    }
    value = finish(std::move(node));
  }
  return value;
}

ExprPtr Parser::binary(ExprType type, BinaryOp op, ExprPtr left, ExprPtr right, int line) {
  auto node = std::make_unique<BinaryExpr>(type, std::move(left), std::move(right), line);
  node->op = op;
  return finish(std::move(node));
}

ExprPtr Parser::parse_or() {
  ExprPtr left = parse_and();
  while (current().is_name("or")) {
    const int line = next().line;
    ExprPtr right = parse_and();
    left = binary(ExprType::kOr, BinaryOp::kAdd, std::move(left), std::move(right), line);
  }
  return left;
}

ExprPtr Parser::parse_and() {
  ExprPtr left = parse_not();
  while (current().is_name("and")) {
    const int line = next().line;
    ExprPtr right = parse_not();
    left = binary(ExprType::kAnd, BinaryOp::kAdd, std::move(left), std::move(right), line);
  }
  return left;
}

ExprPtr Parser::parse_not() {
  if (!current().is_name("not")) return parse_compare();
  const Depth depth(*this, kOperatorWeight);
  const int line = next().line;
  return finish(std::make_unique<UnaryExpr>('!', parse_not(), line));
}

bool Parser::parse_compare_op(CompareOp& op) {
  static constexpr std::pair<std::string_view, CompareOp> kSymbols[] = {{"==", CompareOp::kEqual},  {"!=", CompareOp::kNotEqual},
                                                                        {"<", CompareOp::kLess},    {"<=", CompareOp::kLessEqual},
                                                                        {">", CompareOp::kGreater}, {">=", CompareOp::kGreaterEqual}};
  for (const auto& [symbol, meaning] : kSymbols) {
    if (!skip_operator(symbol)) continue;
    op = meaning;
    return true;
  }
  if (skip_name("in")) {
    op = CompareOp::kIn;
    return true;
  }
  if (!current().is_name("not") || !look().is_name("in")) return false;
  next();
  next();
  op = CompareOp::kNotIn;
  return true;
}

ExprPtr Parser::parse_compare() {
  const int line = current().line;
  ExprPtr first = parse_sum();
  CompareOp op;
  if (!parse_compare_op(op)) return first;
  auto node = std::make_unique<CompareExpr>(line);
  node->first = std::move(first);
  do node->rest.emplace_back(op, parse_sum());
  while (parse_compare_op(op));
  return finish(std::move(node));
}

ExprPtr Parser::parse_sum() {
  ExprPtr left = parse_concat();
  while (current().is_operator("+") || current().is_operator("-")) {
    const Token symbol = next();
    ExprPtr right = parse_concat();
    const BinaryOp op = symbol.text == "+" ? BinaryOp::kAdd : BinaryOp::kSubtract;
    left = binary(ExprType::kBinary, op, std::move(left), std::move(right), symbol.line);
  }
  return left;
}

ExprPtr Parser::parse_concat() {
  auto node = std::make_unique<ItemsExpr>(ExprType::kConcat, current().line);
  node->items.push_back(parse_product());
  while (skip_operator("~")) node->items.push_back(parse_product());
  return node->items.size() == 1 ? std::move(node->items.front()) : finish(std::move(node));
}

ExprPtr Parser::parse_product() {
  static constexpr std::pair<std::string_view, BinaryOp> kSymbols[] = {
      {"*", BinaryOp::kMultiply}, {"/", BinaryOp::kDivide}, {"//", BinaryOp::kFloorDivide}, {"%", BinaryOp::kModulo}};
  ExprPtr left = parse_power();
  for (;;) {
    const auto* found =
        std::find_if(std::begin(kSymbols), std::end(kSymbols), [&](const auto& s) { return current().is_operator(s.first); });
    if (found == std::end(kSymbols)) return left;
    const int line = next().line;
    ExprPtr right = parse_power();
    left = binary(ExprType::kBinary, found->second, std::move(left), std::move(right), line);
  }
}

// Left-associative, unlike in Python.
ExprPtr Parser::parse_power() {
  ExprPtr left = parse_unary();
  while (current().is_operator("**")) {
    const int line = next().line;
    ExprPtr right = parse_unary();
    left = binary(ExprType::kBinary, BinaryOp::kPower, std::move(left), std::move(right), line);
  }
  return left;
}

ExprPtr Parser::parse_unary(bool with_filter) {
  ExprPtr node;
  if (current().is_operator("-") || current().is_operator("+")) {
    const Depth depth(*this, kOperatorWeight);
    const Token sign = next();
    node = finish(std::make_unique<UnaryExpr>(sign.text[0], parse_unary(false), sign.line));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filter ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

ExprPtr Parser::parse_primary(bool with_namespace) {
  const int line = current().line;
  if (current().is(TokenType::kName)) return parse_name(with_namespace);
  if (current().is(TokenType::kText)) {
    std::string text;
    while (current().is(TokenType::kText)) text += next().text;
    return constant(Value::text(std::move(text)), line);
  }
  if (current().is(TokenType::kInteger) || current().is(TokenType::kFloat)) return constant(next().number, line);
  if (skip_operator("(")) {
    ExprPtr inner = parse_tuple(true, {}, true);
    expect_operator(")");
    return inner;
  }
  if (current().is_operator("[")) return parse_list();
  if (current().is_operator("{")) return parse_dict();
  fail_here(fmt::format("unexpected {}", describe_current()));
}

ExprPtr Parser::parse_name(bool with_namespace) {
  const Token token = next();
  if (token.text == "true" || token.text == "True") return constant(Value::boolean(true), token.line);
  if (token.text == "false" || token.text == "False") return constant(Value::boolean(false), token.line);
  if (token.text == "none" || token.text == "None") return constant(Value::none(), token.line);
  auto name = std::make_unique<NameExpr>(token.text, token.line);
  if (with_namespace && skip_operator(".")) name->attribute = expect_any_name();
  return name;
}

ExprPtr Parser::parse_list() {
  auto node = std::make_unique<ItemsExpr>(ExprType::kList, current().line);
  expect_operator("[");
  while (!current().is_operator("]")) {
    if (!node->items.empty()) expect_operator(",");
    if (current().is_operator("]")) break;
    node->items.push_back(parse_expression());
  }
  expect_operator("]");
  return finish(std::move(node));
}

ExprPtr Parser::parse_dict() {
  auto node = std::make_unique<ItemsExpr>(ExprType::kDict, current().line);
  expect_operator("{");
  while (!current().is_operator("}")) {
    if (!node->items.empty()) expect_operator(",");
    if (current().is_operator("}")) break;
    node->items.push_back(parse_expression());
    expect_operator(":");
    node->items.push_back(parse_expression());
  }
  expect_operator("}");
  return finish(std::move(node));
}

ExprPtr Parser::parse_postfix(ExprPtr node) {
  for (;;) {
    if (current().is_operator("."))
      node = parse_dot(std::move(node));
    else if (current().is_operator("["))
      node = parse_subscript(std::move(node));
    else if (current().is_operator("("))
      node = parse_call(std::move(node));
    else
      return node;
  }
}

ExprPtr Parser::parse_filters_and_tests(ExprPtr node) {
  for (;;) {
    if (current().is_operator("|"))
      node = parse_filter(std::move(node));
    else if (current().is_name("is"))
      node = parse_test(std::move(node));
    else if (current().is_operator("("))
      node = parse_call(std::move(node));
    else
      return node;
  }
}

ExprPtr Parser::parse_dot(ExprPtr object) {
  const int line = next().line;
  const Token key = next();
  if (key.is(TokenType::kName)) return finish(std::make_unique<AttributeExpr>(std::move(object), key.text, line));
  if (!key.is(TokenType::kInteger)) fail_at(key.line, "a name or a whole number was expected after \".\"");
  return finish(std::make_unique<ItemExpr>(std::move(object), constant(key.number, key.line), line));
}

ExprPtr Parser::parse_subscript(ExprPtr object) {
  const int line = next().line;
  auto keys = std::make_unique<ItemsExpr>(ExprType::kTuple, line);
  while (!current().is_operator("]")) {
    if (!keys->items.empty()) expect_operator(",");
    keys->items.push_back(parse_subscribed());
  }
  expect_operator("]");
  const auto is_bare_slice = [](const ExprPtr& key) {
    return key->type == ExprType::kSlice && static_cast<SliceExpr&>(*key).object == nullptr;
  };
  if (keys->items.size() == 1 && is_bare_slice(keys->items.front())) {
    auto slice = std::unique_ptr<SliceExpr>(static_cast<SliceExpr*>(keys->items.front().release()));
    slice->object = std::move(object);
    return finish(std::move(slice));
  }
  if (std::any_of(keys->items.begin(), keys->items.end(), is_bare_slice)) fail_at(line, "a slice cannot be one of several subscripts");
  if (keys->items.size() == 1) return finish(std::make_unique<ItemExpr>(std::move(object), std::move(keys->items.front()), line));
  return finish(std::make_unique<ItemExpr>(std::move(object), finish(std::move(keys)), line));
}

// An expression, or a slice whose object is not set yet.
ExprPtr Parser::parse_subscribed() {
  const auto at_part_end = [&] { return current().is_operator("]") || current().is_operator(",") || current().is_operator(":"); };
  auto slice = std::make_unique<SliceExpr>(current().line);
  if (!current().is_operator(":")) {
    slice->start = parse_expression();
    if (!current().is_operator(":")) return std::move(slice->start);
  }
  next();
  if (!at_part_end()) slice->stop = parse_expression();
  if (skip_operator(":") && !at_part_end()) slice->step = parse_expression();
  return finish(std::move(slice));
}

CallArgs Parser::parse_args() {
  const int line = current().line;
  const auto ensure = [&](bool holds) {
    if (!holds) fail_at(line, "the arguments of a call are in an order that calls do not have");
  };
  CallArgs args;
  expect_operator("(");
  for (bool first = true; !current().is_operator(")"); first = false) {
    if (!first) expect_operator(",");
    if (current().is_operator(")")) break;
    if (skip_operator("*")) {
      ensure(args.spread_list == nullptr && args.spread_named == nullptr);
      args.spread_list = parse_expression();
    } else if (skip_operator("**")) {
      ensure(args.spread_named == nullptr);
      args.spread_named = parse_expression();
    } else if (current().is(TokenType::kName) && look().is_operator("=")) {
      ensure(args.spread_named == nullptr);
      const std::string name = next().text;
      next();
      for (const auto& [other, value] : args.named)
        if (other == name) fail_at(line, fmt::format("the keyword argument '{}' is given twice", name));
      args.named.emplace_back(name, parse_expression());
    } else {
      ensure(args.spread_list == nullptr && args.spread_named == nullptr && args.named.empty());
      args.list.push_back(parse_expression());
    }
  }
  expect_operator(")");
  return args;
}

ExprPtr Parser::parse_call(ExprPtr callee) {
  auto node = std::make_unique<CallExpr>(current().line);
  node->callee = std::move(callee);
  node->args = parse_args();
  return finish(std::move(node));
}

std::string Parser::parse_dotted_name() {
  std::string name = expect_any_name();
  while (skip_operator(".")) name.append(".").append(expect_any_name());
  return name;
}

// A chain of filters; `at_name`: without the first bar, as in a filter block.
ExprPtr Parser::parse_filter(ExprPtr subject, bool at_name) {
  while (at_name || current().is_operator("|")) {
    if (!at_name) next();
    at_name = false;
    auto node = std::make_unique<FilterExpr>(current().line);
    node->name = parse_dotted_name();
    node->body = find_filter(node->name);
    node->subject = std::move(subject);
    if (current().is_operator("(")) node->args = parse_args();
    subject = finish(std::move(node));
  }
  return subject;
}

ExprPtr Parser::parse_test(ExprPtr subject) {
  auto node = std::make_unique<TestExpr>(next().line);
  const bool is_negated = skip_name("not");
  node->name = parse_dotted_name();
  node->body = find_test(node->name);
  node->subject = std::move(subject);
  const bool starts_argument = current().is(TokenType::kName) || current().is(TokenType::kText) || current().is(TokenType::kInteger) ||
                               current().is(TokenType::kFloat) || current().is_operator("[") || current().is_operator("{");
  if (current().is_operator("(")) {
    node->args = parse_args();
  } else if (starts_argument && !current().is_name("else") && !current().is_name("or") && !current().is_name("and")) {
    if (current().is_name("is")) fail_here("tests cannot be chained with \"is\"");
    node->args.list.push_back(parse_postfix(parse_primary()));
  }
  const int line = node->line;
  ExprPtr test = finish(std::move(node));
  return is_negated ? finish(std::make_unique<UnaryExpr>('!', std::move(test), line)) : std::move(test);
}

}  // namespace kvik::text::jinja

#pragma once

#include <initializer_list>

#include "text/template/ast.h"
#include "text/template/fault.h"
#include "text/template/lexer.h"
#include "text/template/limits.h"

namespace kvik::text::jinja {

// Recursive descent, with the grammar and precedences of the reference. Expressions are in parse_expression.cc, tags in parser.cc.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Body parse_template();

 private:
  // Counts the depth of the recursion; an untrusted template must not exhaust the stack.
  class Depth {
   public:
    Depth(Parser& parser, int weight) : parser_(parser), weight_(weight) {
      parser.depth_ += weight;
      if (parser.depth_ > kMost) parser.fail_here("nested too deeply");
    }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    ~Depth() { parser_.depth_ -= weight_; }

   private:
    static constexpr int kMost = 4 * kMaxStatementDepth;
    Parser& parser_;
    int weight_;
  };
  static constexpr int kStatementWeight = 4, kExpressionWeight = 2, kOperatorWeight = 1;

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token next();
  bool skip_operator(std::string_view symbol);
  bool skip_name(std::string_view name);
  void expect_operator(std::string_view symbol);
  void expect_name(std::string_view name);
  std::string expect_any_name();
  void expect(TokenType type, std::string_view what);
  [[noreturn]] void fail_here(const std::string& what) const { fail_at(current().line, what); }
  [[noreturn]] void fail_at(int line, const std::string& what) const;
  std::string describe_current() const;

  // Sets and checks the height of a new node.
  template <typename Node>
  ExprPtr finish(std::unique_ptr<Node> node);

  // parse_expression.cc
  ExprPtr parse_expression(bool with_conditional = true);
  ExprPtr parse_tuple(bool with_conditional = true, std::string_view end_name = {}, bool in_parentheses = false);
  ExprPtr parse_conditional();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  bool parse_compare_op(CompareOp& op);
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filter = true);
  ExprPtr parse_primary(bool with_namespace = false);
  ExprPtr parse_name(bool with_namespace);
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_filters_and_tests(ExprPtr node);
  ExprPtr parse_dot(ExprPtr object);
  ExprPtr parse_subscript(ExprPtr object);
  ExprPtr parse_subscribed();
  CallArgs parse_args();
  ExprPtr parse_call(ExprPtr callee);
  ExprPtr parse_filter(ExprPtr subject, bool at_name = false);
  ExprPtr parse_test(ExprPtr subject);
  ExprPtr binary(ExprType type, BinaryOp op, ExprPtr left, ExprPtr right, int line);
  std::string parse_dotted_name();

  // parser.cc
  using Ends = std::initializer_list<std::string_view>;
  Body parse_until(Ends ends);
  Body parse_body(Ends ends);
  Body parse_body_and_drop(std::string_view end);
  StmtPtr parse_statement();
  StmtPtr parse_for();
  StmtPtr parse_if();
  StmtPtr parse_set();
  StmtPtr parse_macro();
  StmtPtr parse_call_block();
  StmtPtr parse_generation();
  StmtPtr parse_filter_block();
  StmtPtr parse_with();
  StmtPtr parse_block();
  StmtPtr parse_print();
  StmtPtr parse_jump(StmtType type);
  void parse_signature(MacroShape& macro);
  ExprPtr parse_target(std::string_view end_name = {}, bool with_namespace = false);
  void check_target(const Expr& target) const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;  // enclosing loops in the same function of the reference, for break and continue
};

template <typename Node>
ExprPtr Parser::finish(std::unique_ptr<Node> node) {
  for_each_child(*node, [&](Expr& child) { node->height = std::max(node->height, child.height + 1); });
  if (node->height > kMaxExpressionHeight) fail_at(node->line, "an expression is nested too deeply");
  return node;
}

}  // namespace kvik::text::jinja

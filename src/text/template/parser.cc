#include "text/template/parser.h"

#include <algorithm>

namespace kvik::text::jinja {
namespace {

// A copy of the target of a loop, for the scope of its test.
ExprPtr clone_target(const Expr& target) {
  if (target.type == ExprType::kName) return std::make_unique<NameExpr>(static_cast<const NameExpr&>(target).name, target.line);
  auto tuple = std::make_unique<ItemsExpr>(ExprType::kTuple, target.line);
  for (const ExprPtr& item : static_cast<const ItemsExpr&>(target).items) tuple->items.push_back(clone_target(*item));
  return tuple;
}

}  // namespace

Token Parser::next() {
  Token token = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::skip_operator(std::string_view symbol) {
  if (!current().is_operator(symbol)) return false;
  next();
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  next();
  return true;
}

void Parser::expect_operator(std::string_view symbol) {
  if (!skip_operator(symbol)) fail_here(fmt::format("'{}' was expected, found {}", symbol, describe_current()));
}

void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) fail_here(fmt::format("'{}' was expected, found {}", name, describe_current()));
}

std::string Parser::expect_any_name() {
  if (!current().is(TokenType::kName)) fail_here(fmt::format("a name was expected, found {}", describe_current()));
  return next().text;
}

void Parser::expect(TokenType type, std::string_view what) {
  if (!current().is(type)) fail_here(fmt::format("'{}' was expected, found {}", what, describe_current()));
  next();
}

void Parser::fail_at(int line, const std::string& what) const {
  throw Fault(Code::kBadModel, fmt::format("template line {}: {}", line, what), true);
}

std::string Parser::describe_current() const {
  if (current().is(TokenType::kEnd)) return "the end of the template";
  if (current().is(TokenType::kData)) return "text outside of tags";
  return fmt::format("'{}'", current().text);
}

Body Parser::parse_template() {
  Body body = parse_until({});
  if (!current().is(TokenType::kEnd)) fail_here(fmt::format("unexpected {}", describe_current()));
  return body;
}

// Statements up to a tag with one of these names, which stays the current token; without names, to the end of the template.
Body Parser::parse_until(Ends ends) {
  const Depth depth(*this, kStatementWeight);
  Body body;
  const auto output = [&]() -> OutputStmt& {
    if (body.empty() || body.back()->type != StmtType::kOutput) body.push_back(std::make_unique<OutputStmt>(current().line));
    return static_cast<OutputStmt&>(*body.back());
  };
  while (!current().is(TokenType::kEnd)) {
    if (current().is(TokenType::kData)) {
      OutputStmt& stmt = output();
      const Token data = next();
      stmt.parts.push_back(std::make_unique<ConstExpr>(Value::text(data.text), data.line));
    } else if (current().is(TokenType::kVariableBegin)) {
      OutputStmt& stmt = output();
      next();
      stmt.parts.push_back(parse_tuple());
      expect(TokenType::kVariableEnd, "}}");
    } else {
      expect(TokenType::kBlockBegin, "{%");
      if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return current().is_name(end); })) return body;
      body.push_back(parse_statement());
      expect(TokenType::kBlockEnd, "%}");
    }
  }
  return body;
}

Body Parser::parse_body(Ends ends) {
  skip_operator(":");
  expect(TokenType::kBlockEnd, "%}");
  Body body = parse_until(ends);
  if (current().is(TokenType::kEnd)) fail_here(fmt::format("the template ends where '{}' was expected", *(ends.end() - 1)));
  return body;
}

Body Parser::parse_body_and_drop(std::string_view end) {
  Body body = parse_body({end});
  next();
  return body;
}

StmtPtr Parser::parse_statement() {
  if (!current().is(TokenType::kName)) fail_here(fmt::format("the name of a tag was expected, found {}", describe_current()));
  const std::string tag = current().text;
  if (tag == "for") return parse_for();
  if (tag == "if") return parse_if();
  if (tag == "set") return parse_set();
  if (tag == "macro") return parse_macro();
  if (tag == "call") return parse_call_block();
  if (tag == "generation") return parse_generation();
  if (tag == "filter") return parse_filter_block();
  if (tag == "with") return parse_with();
  if (tag == "block") return parse_block();
  if (tag == "print") return parse_print();
  if (tag == "break") return parse_jump(StmtType::kBreak);
  if (tag == "continue") return parse_jump(StmtType::kContinue);
  if (tag == "include" || tag == "import" || tag == "from" || tag == "extends")
    fail_here(fmt::format("'{}' needs other templates, which a chat template does not have; insert its text here", tag));
  if (tag == "autoescape") fail_here("'autoescape' is for web pages; chat templates print text as it is");
  fail_here(fmt::format("unknown tag '{}'", tag));
}

void Parser::check_target(const Expr& target) const {
  if (target.type == ExprType::kName) return;
  if (target.type != ExprType::kTuple) fail_at(target.line, "only names and tuples of names can be assigned to");
  for (const ExprPtr& item : static_cast<const ItemsExpr&>(target).items) check_target(*item);
}

ExprPtr Parser::parse_target(std::string_view end_name, bool with_namespace) {
  auto tuple = std::make_unique<ItemsExpr>(ExprType::kTuple, current().line);
  bool has_comma = false;
  while (!current().is(TokenType::kBlockEnd) && !current().is_operator(")") && (end_name.empty() || !current().is_name(end_name))) {
    tuple->items.push_back(parse_primary(with_namespace));
    if (!skip_operator(",")) break;
    has_comma = true;
  }
  if (tuple->items.empty()) fail_here(fmt::format("a name to assign to was expected, found {}", describe_current()));
  ExprPtr target = has_comma ? finish(std::move(tuple)) : std::move(tuple->items.front());
  check_target(*target);
  return target;
}

StmtPtr Parser::parse_for() {
  auto stmt = std::make_unique<ForStmt>(next().line);
  stmt->target = parse_target("in");
  expect_name("in");
  stmt->iterable = parse_tuple(false, "recursive");
  if (skip_name("if")) {
    stmt->test = parse_expression();
    stmt->test_target = clone_target(*stmt->target);
  }
  stmt->is_recursive = skip_name("recursive");
  ++loops_;
  stmt->body = parse_body({"else", "endfor"});
  --loops_;
  if (next().text == "endfor") return stmt;
  const int outer = loops_;
  if (stmt->is_recursive) loops_ = 0;  // a recursive loop is a separate function
  stmt->otherwise = parse_body_and_drop("endfor");
  loops_ = outer;
  return stmt;
}

StmtPtr Parser::parse_if() {
  auto stmt = std::make_unique<IfStmt>(next().line);
  for (;;) {
    ExprPtr test = parse_tuple(false);
    Body body = parse_body({"elif", "else", "endif"});
    stmt->branches.emplace_back(std::move(test), std::move(body));
    const Token end = next();
    if (end.text == "else") stmt->otherwise = parse_body_and_drop("endif");
    if (end.text != "elif") return stmt;
  }
}

StmtPtr Parser::parse_set() {
  const int line = next().line;
  ExprPtr target = parse_target({}, true);
  if (skip_operator("=")) {
    auto stmt = std::make_unique<SetStmt>(line);
    stmt->target = std::move(target);
    stmt->value = parse_tuple();
    return stmt;
  }
  auto stmt = std::make_unique<SetBlockStmt>(line);
  stmt->target = std::move(target);
  stmt->filter = parse_filter(nullptr);
  stmt->body = parse_body_and_drop("endset");
  return stmt;
}

void Parser::parse_signature(MacroShape& macro) {
  expect_operator("(");
  while (!current().is_operator(")")) {
    if (!macro.parameters.empty()) expect_operator(",");
    const std::string name = expect_any_name();
    if (std::find(macro.parameters.begin(), macro.parameters.end(), name) != macro.parameters.end())
      fail_here(fmt::format("the parameter '{}' is named twice", name));
    if (skip_operator("="))
      macro.defaults.push_back(parse_expression());
    else if (!macro.defaults.empty())
      fail_here("a parameter without a default follows one with a default");
    macro.parameters.push_back(name);
  }
  expect_operator(")");
}

StmtPtr Parser::parse_macro() {
  auto stmt = std::make_unique<MacroStmt>(next().line);
  stmt->macro.name = expect_any_name();
  parse_signature(stmt->macro);
  const int outer = std::exchange(loops_, 0);
  stmt->macro.body = parse_body_and_drop("endmacro");
  loops_ = outer;
  return stmt;
}

StmtPtr Parser::parse_call_block() {
  auto stmt = std::make_unique<CallBlockStmt>(next().line);
  if (current().is_operator("(")) parse_signature(stmt->macro);
  stmt->call = parse_expression();
  if (stmt->call->type != ExprType::kCall) fail_at(stmt->line, "a call block needs a call");
  const int outer = std::exchange(loops_, 0);
  stmt->macro.body = parse_body_and_drop("endcall");
  loops_ = outer;
  return stmt;
}

StmtPtr Parser::parse_generation() {
  auto stmt = std::make_unique<CallBlockStmt>(next().line);
  const int outer = std::exchange(loops_, 0);
  stmt->macro.body = parse_body_and_drop("endgeneration");
  loops_ = outer;
  return stmt;
}

StmtPtr Parser::parse_filter_block() {
  auto stmt = std::make_unique<FilterBlockStmt>(next().line);
  stmt->filter = parse_filter(nullptr, true);
  stmt->body = parse_body_and_drop("endfilter");
  return stmt;
}

StmtPtr Parser::parse_with() {
  auto stmt = std::make_unique<WithStmt>(next().line);
  while (!current().is(TokenType::kBlockEnd)) {
    if (!stmt->bindings.empty()) expect_operator(",");
    ExprPtr target = parse_target();
    expect_operator("=");
    ExprPtr value = parse_expression();
    stmt->bindings.emplace_back(std::move(target), std::move(value));
  }
  stmt->body = parse_body_and_drop("endwith");
  return stmt;
}

StmtPtr Parser::parse_block() {
  auto stmt = std::make_unique<BlockStmt>(next().line);
  stmt->name = expect_any_name();
  skip_name("scoped");
  if (current().is_name("required")) fail_here("a required block needs another template, which a chat template does not have");
  const int outer = std::exchange(loops_, 0);
  stmt->body = parse_body_and_drop("endblock");
  loops_ = outer;
  skip_name(stmt->name);
  return stmt;
}

StmtPtr Parser::parse_print() {
  auto stmt = std::make_unique<OutputStmt>(next().line);
  while (!current().is(TokenType::kBlockEnd)) {
    if (!stmt->parts.empty()) expect_operator(",");
    stmt->parts.push_back(parse_expression());
  }
  return stmt;
}

StmtPtr Parser::parse_jump(StmtType type) {
  const Token tag = next();
  if (loops_ == 0) fail_at(tag.line, fmt::format("'{}' is outside of any loop", tag.text));
  return std::make_unique<JumpStmt>(type, tag.line);
}

std::unique_ptr<Program> parse(std::string_view source) {
  if (source.size() > kMaxTemplateBytes)
    throw Fault(Code::kTooLarge, fmt::format("the template has {} bytes; the limit is {}", source.size(), kMaxTemplateBytes), true);
  auto program = std::make_unique<Program>();
  program->body = Parser(tokenize(source)).parse_template();
  resolve(*program);
  return program;
}

}  // namespace kvik::text::jinja

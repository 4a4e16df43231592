#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/template/value.h"

namespace kvik::text::jinja {

enum class TokenType { kData, kBlockBegin, kBlockEnd, kVariableBegin, kVariableEnd, kName, kText, kInteger, kFloat, kOperator, kEnd };

struct Token {
  TokenType type;
  std::string text;  // data, name, operator, the content of a string
  Value number;      // of kInteger and kFloat
  int line = 1;

  bool is(TokenType wanted) const { return type == wanted; }
  bool is_operator(std::string_view symbol) const { return type == TokenType::kOperator && text == symbol; }
  bool is_name(std::string_view name) const { return type == TokenType::kName && text == name; }
};

// Splits a template into tokens, as the reference environment does: trim_blocks and lstrip_blocks on, keep_trailing_newline off, no line
// statements. The last token is kEnd. Throws a Fault with the line.
std::vector<Token> tokenize(std::string_view source);

// The value of a string literal, given without its quotes.
std::string unescape(std::string_view literal);

}  // namespace kvik::text::jinja

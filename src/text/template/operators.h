#pragma once

#include "text/template/ast.h"
#include "text/template/runtime.h"

namespace kvik::text::jinja {

// Python's operators on template values; they throw if Python raises.
Value apply(Runtime& runtime, BinaryOp op, const Value& left, const Value& right);
Value apply_sign(Runtime& runtime, char sign, const Value& operand);
bool compare(Runtime& runtime, CompareOp op, const Value& left, const Value& right);

}  // namespace kvik::text::jinja

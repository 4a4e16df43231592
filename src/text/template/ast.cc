#include "text/template/ast.h"

namespace kvik::text::jinja {
namespace {

using Visit = std::function<void(Expr&)>;

void visit_if(const ExprPtr& expr, const Visit& visit) {
  if (expr != nullptr) visit(*expr);
}

}  // namespace

void for_each_arg(const CallArgs& args, const Visit& visit) {
  for (const ExprPtr& arg : args.list) visit(*arg);
  for (const auto& [name, arg] : args.named) visit(*arg);
  visit_if(args.spread_list, visit);
  visit_if(args.spread_named, visit);
}

void for_each_child(const Expr& expr, const Visit& visit) {
  switch (expr.type) {
    case ExprType::kConst:
    case ExprType::kName: return;
    case ExprType::kList:
    case ExprType::kTuple:
    case ExprType::kDict:
    case ExprType::kConcat:
      for (const ExprPtr& item : static_cast<const ItemsExpr&>(expr).items) visit(*item);
      return;
    case ExprType::kUnary: return visit(*static_cast<const UnaryExpr&>(expr).operand);
    case ExprType::kBinary:
    case ExprType::kAnd:
    case ExprType::kOr: visit(*static_cast<const BinaryExpr&>(expr).left); return visit(*static_cast<const BinaryExpr&>(expr).right);
    case ExprType::kCompare:
      visit(*static_cast<const CompareExpr&>(expr).first);
      for (const auto& [op, operand] : static_cast<const CompareExpr&>(expr).rest) visit(*operand);
      return;
    case ExprType::kConditional:
      visit(*static_cast<const ConditionalExpr&>(expr).test);
      visit(*static_cast<const ConditionalExpr&>(expr).value);
      return visit_if(static_cast<const ConditionalExpr&>(expr).otherwise, visit);
    case ExprType::kAttribute: return visit(*static_cast<const AttributeExpr&>(expr).object);
    case ExprType::kItem: visit(*static_cast<const ItemExpr&>(expr).object); return visit(*static_cast<const ItemExpr&>(expr).key);
    case ExprType::kSlice: {
      const auto& slice = static_cast<const SliceExpr&>(expr);
      visit_if(slice.object, visit);
      visit_if(slice.start, visit);
      visit_if(slice.stop, visit);
      return visit_if(slice.step, visit);
    }
    case ExprType::kCall:
      visit(*static_cast<const CallExpr&>(expr).callee);
      return for_each_arg(static_cast<const CallExpr&>(expr).args, visit);
    case ExprType::kFilter:
      visit_if(static_cast<const FilterExpr&>(expr).subject, visit);
      return for_each_arg(static_cast<const FilterExpr&>(expr).args, visit);
    case ExprType::kTest:
      visit(*static_cast<const TestExpr&>(expr).subject);
      return for_each_arg(static_cast<const TestExpr&>(expr).args, visit);
  }
}

}  // namespace kvik::text::jinja

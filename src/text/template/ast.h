#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/filters.h"
#include "text/template/value.h"

namespace kvik::text::jinja {

// ---- expressions

enum class ExprType {
  kConst,
  kName,
  kList,
  kTuple,
  kDict,
  kUnary,
  kBinary,
  kAnd,
  kOr,
  kConcat,
  kCompare,
  kConditional,
  kAttribute,
  kItem,
  kSlice,
  kCall,
  kFilter,
  kTest
};

struct Expr {
  Expr(ExprType type_in, int line_in) : type(type_in), line(line_in) {}
  virtual ~Expr() = default;

  const ExprType type;
  int line;
  int height = 1;  // of the tree; bounded by the parser, so that traversals can recurse
};
using ExprPtr = std::unique_ptr<Expr>;

struct ConstExpr : Expr {
  ConstExpr(Value value_in, int line_in) : Expr(ExprType::kConst, line_in), value(std::move(value_in)) {}
  Value value;
};

// The location of a variable: `slot` of the scope `up` levels out. Set by the resolver.
struct Place {
  int up = 0;
  int slot = 0;
};

struct NameExpr : Expr {
  NameExpr(std::string name_in, int line_in) : Expr(ExprType::kName, line_in), name(std::move(name_in)) {}
  std::string name;
  std::string attribute;  // of a target `ns.attribute`; empty otherwise
  Place place;
};

struct ItemsExpr : Expr {  // kList, kTuple, kConcat; kDict as key, value, key, value
  using Expr::Expr;
  std::vector<ExprPtr> items;
};

struct UnaryExpr : Expr {
  UnaryExpr(char symbol_in, ExprPtr operand_in, int line_in)
      : Expr(ExprType::kUnary, line_in), symbol(symbol_in), operand(std::move(operand_in)) {}
  char symbol;  // '-', '+', '!' for not
  ExprPtr operand;
};

enum class BinaryOp { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };

struct BinaryExpr : Expr {  // kBinary, kAnd, kOr
  BinaryExpr(ExprType type_in, ExprPtr left_in, ExprPtr right_in, int line_in)
      : Expr(type_in, line_in), left(std::move(left_in)), right(std::move(right_in)) {}
  BinaryOp op = BinaryOp::kAdd;
  ExprPtr left, right;
};

enum class CompareOp { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

struct CompareExpr : Expr {  // a < b <= c is one
  explicit CompareExpr(int line_in) : Expr(ExprType::kCompare, line_in) {}
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};

struct ConditionalExpr : Expr {
  explicit ConditionalExpr(int line_in) : Expr(ExprType::kConditional, line_in) {}
  ExprPtr test, value, otherwise;  // `otherwise` may be null
};

struct AttributeExpr : Expr {
  AttributeExpr(ExprPtr object_in, std::string name_in, int line_in)
      : Expr(ExprType::kAttribute, line_in), object(std::move(object_in)), name(std::move(name_in)) {}
  ExprPtr object;
  std::string name;
};

struct ItemExpr : Expr {
  ItemExpr(ExprPtr object_in, ExprPtr key_in, int line_in)
      : Expr(ExprType::kItem, line_in), object(std::move(object_in)), key(std::move(key_in)) {}
  ExprPtr object, key;
};

struct SliceExpr : Expr {  // object[start:stop:step]; any may be null
  explicit SliceExpr(int line_in) : Expr(ExprType::kSlice, line_in) {}
  ExprPtr object, start, stop, step;
};

struct CallArgs {
  std::vector<ExprPtr> list;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr spread_list, spread_named;  // *args and **kwargs
};

struct CallExpr : Expr {
  explicit CallExpr(int line_in) : Expr(ExprType::kCall, line_in) {}
  ExprPtr callee;
  CallArgs args;
};

struct FilterExpr : Expr {  // kFilter; `subject` is null for the first filter of a filter block
  explicit FilterExpr(int line_in) : Expr(ExprType::kFilter, line_in) {}
  ExprPtr subject;
  std::string name;
  FilterBody body = nullptr;  // null: unknown, which is an error when it is evaluated
  CallArgs args;
};

struct TestExpr : Expr {
  explicit TestExpr(int line_in) : Expr(ExprType::kTest, line_in) {}
  ExprPtr subject;
  std::string name;
  TestBody body = nullptr;
  CallArgs args;
};

// ---- statements

// The initial value of a variable of a frame.
enum class LoadKind { kParameter, kResolve, kAlias, kUnset };
struct Load {
  LoadKind kind;
  int slot;
  std::string name;  // kResolve: looked up in the template's variables
  Place from;        // kAlias: relative to the frame
};

// The variables of one scope.
struct Frame {
  std::vector<Load> loads;
  int n_slots = 0;
};

enum class StmtType { kOutput, kFor, kIf, kSet, kSetBlock, kMacro, kCallBlock, kFilterBlock, kWith, kBlock, kBreak, kContinue };

struct Stmt {
  Stmt(StmtType type_in, int line_in) : type(type_in), line(line_in) {}
  virtual ~Stmt() = default;
  const StmtType type;
  int line;
};
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

struct OutputStmt : Stmt {
  explicit OutputStmt(int line_in) : Stmt(StmtType::kOutput, line_in) {}
  std::vector<ExprPtr> parts;
};

struct ForStmt : Stmt {
  explicit ForStmt(int line_in) : Stmt(StmtType::kFor, line_in) {}
  ExprPtr target, iterable, test;  // `test` may be null
  ExprPtr test_target;             // a copy of the target, as a variable in the scope of the test
  bool is_recursive = false;
  bool uses_loop = false;
  int loop_slot = 0;
  Body body, otherwise;
  Frame frame, test_frame, otherwise_frame;
};

struct IfStmt : Stmt {
  explicit IfStmt(int line_in) : Stmt(StmtType::kIf, line_in) {}
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body otherwise;
};

struct SetStmt : Stmt {
  explicit SetStmt(int line_in) : Stmt(StmtType::kSet, line_in) {}
  ExprPtr target, value;
};

struct SetBlockStmt : Stmt {
  explicit SetBlockStmt(int line_in) : Stmt(StmtType::kSetBlock, line_in) {}
  ExprPtr target, filter;  // `filter` may be null
  Body body;
  Frame frame;
};

// Shared by macros and the bodies of call blocks.
struct MacroShape {
  std::string name;  // empty for a call block
  std::vector<std::string> parameters;
  std::vector<int> slots;                                     // of the parameters
  std::vector<ExprPtr> defaults;                              // of the last parameters
  int caller_slot = -1, kwargs_slot = -1, varargs_slot = -1;  // -1: not used
  Body body;
  Frame frame;
};

struct MacroStmt : Stmt {
  explicit MacroStmt(int line_in) : Stmt(StmtType::kMacro, line_in) {}
  MacroShape macro;
  Place place;
};

struct CallBlockStmt : Stmt {
  explicit CallBlockStmt(int line_in) : Stmt(StmtType::kCallBlock, line_in) {}
  MacroShape macro;
  ExprPtr call;  // null for a generation block, which only marks the output of the assistant
};

struct FilterBlockStmt : Stmt {
  explicit FilterBlockStmt(int line_in) : Stmt(StmtType::kFilterBlock, line_in) {}
  ExprPtr filter;
  Body body;
  Frame frame;
};

struct WithStmt : Stmt {
  explicit WithStmt(int line_in) : Stmt(StmtType::kWith, line_in) {}
  std::vector<std::pair<ExprPtr, ExprPtr>> bindings;
  Body body;
  Frame frame;
};

struct BlockStmt : Stmt {
  explicit BlockStmt(int line_in) : Stmt(StmtType::kBlock, line_in) {}
  std::string name;
  Body body;
  Frame frame;
};

struct JumpStmt : Stmt {  // kBreak, kContinue
  using Stmt::Stmt;
};

// A whole template, immutable once resolved: any number of threads may render it.
struct Program {
  Body body;
  Frame frame;
  std::map<std::string, int, std::less<>>
      exported;  // the slots of the outermost scope by name, for blocks, which cannot access enclosing scopes
};

// Parser and resolver. Throws a Fault with the line.
std::unique_ptr<Program> parse(std::string_view source);
void resolve(Program& program);

// Calls `visit` with each expression directly inside; never with null.
void for_each_child(const Expr& expr, const std::function<void(Expr&)>& visit);
void for_each_arg(const CallArgs& args, const std::function<void(Expr&)>& visit);

}  // namespace kvik::text::jinja

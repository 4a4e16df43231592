#include <map>

#include "text/template/ast.h"
#include "text/template/fault.h"

namespace kvik::text::jinja {
namespace {

// The names of one scope during resolution. As in the reference, scoping is static: a name that a scope sets anywhere belongs to that
// scope from its start.
struct Names {
  Names* parent = nullptr;
  Frame* frame = nullptr;
  MacroShape* macro = nullptr;  // for the body of a macro or call block
  ForStmt* loop = nullptr;      // for the body of a loop
  int branches = 0;             // enclosing `if`s
  std::map<std::string, int, std::less<>> slots = {};

  int define(const std::string& name, LoadKind kind, Place from = {}) {
    const int slot = frame->n_slots++;
    slots.emplace(name, slot);
    frame->loads.push_back({kind, slot, kind == LoadKind::kResolve ? name : std::string(), from});
    return slot;
  }
};

class Resolver {
 public:
  explicit Resolver(Program& program) : program_(program) {}

  void run() {
    Names root{.frame = &program_.frame};
    resolve_scope(root, program_.body);
    program_.exported = root.slots;
  }

 private:
  [[noreturn]] static void fail_at(int line, const std::string& what) {
    throw Fault(Code::kBadModel, fmt::format("template line {}: {}", line, what), true);
  }

  // First finds all names of the scope, then binds every use; inner scopes are resolved during the second pass.
  void resolve_scope(Names& names, const Body& body) {
    declare(names, body);
    bind(names, body, false);
  }

  // ---- finding names

  static std::optional<Place> find(const Names* names, std::string_view name) {
    int up = 0;
    for (; names != nullptr; names = names->parent, ++up)
      if (const auto it = names->slots.find(name); it != names->slots.end()) return Place{up, it->second};
    return std::nullopt;
  }

  static int* special_slot(MacroShape& macro, std::string_view name) {
    if (name == "caller") return &macro.caller_slot;
    if (name == "kwargs") return &macro.kwargs_slot;
    return name == "varargs" ? &macro.varargs_slot : nullptr;
  }

  // caller, kwargs and varargs are implicit parameters of every enclosing macro of their use that does not declare them.
  static void declare_special(Names* names, const std::string& name) {
    for (; names != nullptr; names = names->parent) {
      int* slot = names->macro == nullptr ? nullptr : special_slot(*names->macro, name);
      if (slot != nullptr && !names->slots.contains(name)) *slot = names->define(name, LoadKind::kParameter);
    }
  }

  static void load(Names& names, const std::string& name) {
    if (name == "caller" || name == "kwargs" || name == "varargs") declare_special(&names, name);
    if (!find(&names, name)) names.define(name, LoadKind::kResolve);
  }

  static void store(Names& names, const std::string& name) {
    if (names.slots.contains(name)) return;
    if (const std::optional<Place> outer = find(names.parent, name)) {
      names.define(name, LoadKind::kAlias, {outer->up + 1, outer->slot});
      return;
    }
    names.define(name, names.branches > 0 ? LoadKind::kResolve : LoadKind::kUnset);
  }

  static void load_all(Names& names, const Expr& expr) {
    if (expr.type == ExprType::kName) return load(names, static_cast<const NameExpr&>(expr).name);
    for_each_child(expr, [&](Expr& child) { load_all(names, child); });
  }

  static void store_all(Names& names, const Expr& target) {
    if (target.type == ExprType::kName) {
      const auto& name = static_cast<const NameExpr&>(target);
      return name.attribute.empty() ? store(names, name.name) : load(names, name.name);
    }
    for_each_child(target, [&](Expr& child) { store_all(names, child); });
  }

  static void declare_parameters(Names& names, const Expr& target) {
    if (target.type == ExprType::kName) {
      const std::string& name = static_cast<const NameExpr&>(target).name;
      if (!names.slots.contains(name)) names.define(name, LoadKind::kParameter);
      return;
    }
    for_each_child(target, [&](Expr& child) { declare_parameters(names, child); });
  }

  static void declare(Names& names, const Body& body) {
    for (const StmtPtr& stmt : body) declare(names, *stmt);
  }

  static void declare(Names& names, const Stmt& stmt) {
    switch (stmt.type) {
      case StmtType::kOutput:
        for (const ExprPtr& part : static_cast<const OutputStmt&>(stmt).parts) load_all(names, *part);
        return;
      case StmtType::kFor: return load_all(names, *static_cast<const ForStmt&>(stmt).iterable);
      case StmtType::kIf: return declare_if(names, static_cast<const IfStmt&>(stmt));
      case StmtType::kSet:
        load_all(names, *static_cast<const SetStmt&>(stmt).value);
        return store_all(names, *static_cast<const SetStmt&>(stmt).target);
      case StmtType::kSetBlock: return store_all(names, *static_cast<const SetBlockStmt&>(stmt).target);
      case StmtType::kMacro: return store(names, static_cast<const MacroStmt&>(stmt).macro.name);
      case StmtType::kCallBlock:
        if (const ExprPtr& call = static_cast<const CallBlockStmt&>(stmt).call) load_all(names, *call);
        return;
      case StmtType::kFilterBlock: return load_all(names, *static_cast<const FilterBlockStmt&>(stmt).filter);
      case StmtType::kWith:
        for (const auto& [target, value] : static_cast<const WithStmt&>(stmt).bindings) load_all(names, *value);
        return;
      default: return;
    }
  }

  static void declare_if(Names& names, const IfStmt& stmt) {
    bool first = true;
    for (const auto& [test, body] : stmt.branches) {
      if (!std::exchange(first, false)) ++names.branches;
      load_all(names, *test);
      ++names.branches;
      declare(names, body);
    }
    ++names.branches;
    declare(names, stmt.otherwise);
    names.branches -= static_cast<int>(2 * stmt.branches.size());
  }

  // ---- binding uses

  void bind(Names& names, const Body& body, bool is_soft) {
    for (const StmtPtr& stmt : body) bind(names, *stmt, is_soft);
  }

  // `is_soft`: inside an `if`, where an unknown filter is an error only when it is evaluated.
  void bind(Names& names, Expr& expr, bool is_soft) {
    switch (expr.type) {
      case ExprType::kName: return bind_name(names, static_cast<NameExpr&>(expr));
      case ExprType::kConditional: is_soft = true; break;
      case ExprType::kFilter:
        if (static_cast<FilterExpr&>(expr).body == nullptr && !is_soft)
          fail_at(expr.line, fmt::format("there is no filter named '{}'", static_cast<FilterExpr&>(expr).name));
        break;
      case ExprType::kTest:
        if (static_cast<TestExpr&>(expr).body == nullptr && !is_soft)
          fail_at(expr.line, fmt::format("there is no test named '{}'", static_cast<TestExpr&>(expr).name));
        break;
      default: break;
    }
    for_each_child(expr, [&](Expr& child) { bind(names, child, is_soft); });
  }

  static void bind_name(Names& names, NameExpr& name) {
    name.place = *find(&names, name.name);
    if (name.name != "loop") return;
    Names* at = &names;
    for (int up = name.place.up; up > 0; --up) at = at->parent;
    if (at->loop != nullptr && at->loop->loop_slot == name.place.slot) at->loop->uses_loop = true;
  }

  void bind(Names& names, Stmt& stmt, bool is_soft) {
    switch (stmt.type) {
      case StmtType::kOutput:
        for (const ExprPtr& part : static_cast<OutputStmt&>(stmt).parts) bind(names, *part, is_soft);
        return;
      case StmtType::kFor: return bind_for(names, static_cast<ForStmt&>(stmt), is_soft);
      case StmtType::kIf:
        for (auto& [test, body] : static_cast<IfStmt&>(stmt).branches) {
          bind(names, *test, true);
          bind(names, body, true);
        }
        return bind(names, static_cast<IfStmt&>(stmt).otherwise, true);
      case StmtType::kSet:
        check_target(*static_cast<SetStmt&>(stmt).target);
        bind(names, *static_cast<SetStmt&>(stmt).value, is_soft);
        return bind(names, *static_cast<SetStmt&>(stmt).target, is_soft);
      case StmtType::kSetBlock: return bind_set_block(names, static_cast<SetBlockStmt&>(stmt), is_soft);
      case StmtType::kMacro:
        static_cast<MacroStmt&>(stmt).place = *find(&names, static_cast<MacroStmt&>(stmt).macro.name);
        return bind_macro(names, static_cast<MacroStmt&>(stmt).macro);
      case StmtType::kCallBlock:
        bind_macro(names, static_cast<CallBlockStmt&>(stmt).macro);
        if (const ExprPtr& call = static_cast<CallBlockStmt&>(stmt).call) bind(names, *call, is_soft);
        return;
      case StmtType::kFilterBlock: return bind_filter_block(names, static_cast<FilterBlockStmt&>(stmt));
      case StmtType::kWith: return bind_with(names, static_cast<WithStmt&>(stmt), is_soft);
      case StmtType::kBlock: return bind_block(static_cast<BlockStmt&>(stmt));
      case StmtType::kBreak:
      case StmtType::kContinue: return;
    }
  }

  void bind_for(Names& names, ForStmt& stmt, bool is_soft) {
    bind(names, *stmt.iterable, is_soft);
    ++loops_;
    check_target(*stmt.target);
    if (stmt.test != nullptr) {
      Names test{.parent = &names, .frame = &stmt.test_frame};
      declare_parameters(test, *stmt.test_target);
      load_all(test, *stmt.test);
      bind(test, *stmt.test_target, false);
      bind(test, *stmt.test, false);
    }
    Names inner{.parent = &names, .frame = &stmt.frame, .loop = &stmt};
    stmt.loop_slot = inner.define("loop", LoadKind::kParameter);
    declare_parameters(inner, *stmt.target);
    declare(inner, stmt.body);
    bind(inner, *stmt.target, false);
    bind(inner, stmt.body, false);
    Names otherwise{.parent = &names, .frame = &stmt.otherwise_frame};
    resolve_scope(otherwise, stmt.otherwise);
    --loops_;
  }

  void check_target(const Expr& target) const {
    if (loops_ == 0) return;
    const bool is_loop = target.type == ExprType::kName && static_cast<const NameExpr&>(target).name == "loop";
    if (is_loop && static_cast<const NameExpr&>(target).attribute.empty())
      fail_at(target.line, "the variable 'loop' of a loop cannot be assigned to");
    for_each_child(target, [&](Expr& child) { check_target(child); });
  }

  void bind_set_block(Names& names, SetBlockStmt& stmt, bool is_soft) {
    Names inner{.parent = &names, .frame = &stmt.frame};
    declare(inner, stmt.body);
    if (stmt.filter != nullptr) load_all(inner, *stmt.filter);
    bind(inner, stmt.body, false);
    if (stmt.filter != nullptr) bind(inner, *stmt.filter, false);
    check_target(*stmt.target);
    bind(names, *stmt.target, is_soft);
  }

  void bind_macro(Names& names, MacroShape& macro) {
    Names inner{.parent = &names, .frame = &macro.frame, .macro = &macro};
    for (const std::string& parameter : macro.parameters) macro.slots.push_back(inner.define(parameter, LoadKind::kParameter));
    for (const ExprPtr& value : macro.defaults) load_all(inner, *value);
    declare(inner, macro.body);
    for (const ExprPtr& value : macro.defaults) bind(inner, *value, false);
    bind(inner, macro.body, false);
  }

  void bind_filter_block(Names& names, FilterBlockStmt& stmt) {
    Names inner{.parent = &names, .frame = &stmt.frame};
    declare(inner, stmt.body);
    load_all(inner, *stmt.filter);
    bind(inner, stmt.body, false);
    bind(inner, *stmt.filter, false);
  }

  void bind_with(Names& names, WithStmt& stmt, bool is_soft) {
    Names inner{.parent = &names, .frame = &stmt.frame};
    for (const auto& [target, value] : stmt.bindings) declare_parameters(inner, *target);
    declare(inner, stmt.body);
    for (const auto& [target, value] : stmt.bindings) {
      bind(names, *value, is_soft);
      bind(inner, *target, false);
    }
    bind(inner, stmt.body, false);
  }

  // A block cannot access enclosing scopes, only what the template has set before.
  void bind_block(BlockStmt& stmt) {
    Names names{.frame = &stmt.frame};
    resolve_scope(names, stmt.body);
  }

  Program& program_;
  int loops_ = 0;  // enclosing loops
};

}  // namespace

void resolve(Program& program) { Resolver(program).run(); }

}  // namespace kvik::text::jinja

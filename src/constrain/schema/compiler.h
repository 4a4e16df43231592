#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "constrain/grammar.h"
#include "constrain/schema/json_rules.h"
#include "constrain/schema/resolver.h"

namespace kvik::constrain {

// Compiles a schema to a grammar: one rule per set of schemas that a value must satisfy. Use an object once.
class SchemaCompiler {
 public:
  explicit SchemaCompiler(const Json& document) : document_(document), resolver_(document), json_(grammar_) {}

  Grammar compile();

 private:
  struct Pending {
    RuleId rule;
    Conjunction all;
  };
  // A call of the rule for values that satisfy all schemas. Rules are written later, so that schemas may be recursive.
  NodeId value_of(const Conjunction& all);
  NodeId write_value(const Conjunction& all);
  NodeId write_shape(const Shape& shape);
  NodeId write_literals(const Shape& shape);
  NodeId write_number(const Shape& shape, bool integer);
  NodeId write_range(const Shape& shape, bool integer);
  NodeId write_string(const Shape& shape);
  NodeId write_array(const Shape& shape);
  NodeId write_distinct(const Shape& shape);
  NodeId write_counted(const Shape& shape, size_t n_prefix);
  NodeId write_object(const Shape& shape);

  // A call of the rule for `key`, which is written at the first call.
  NodeId shared(const std::string& key, const std::function<NodeId()>& write);

  // Entries of an object whose names are not listed.
  std::vector<NodeId> free_entries(const Shape& shape, const std::vector<std::string>& names);
  CharDfa names_allowed(const Shape& shape);
  bool is_name_allowed(const Shape& shape, const std::string& name);

  const Json& document_;
  Grammar grammar_;
  Resolver resolver_;
  JsonRules json_;
  std::map<std::vector<const Json*>, RuleId> rules_;
  std::map<std::string, RuleId> shared_;  // strings and numbers, by their restrictions
  std::deque<Pending> pending_;
};

}  // namespace kvik::constrain

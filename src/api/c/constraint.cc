#include "api/c/boundary.h"

using namespace kvik::c;

namespace {

template <class Make>
kvik_status make_constraint(kvik_constraint** constraint, const Make& make) {
  return guarded([&] {
    given(constraint, "constraint") = nullptr;
    *constraint = new kvik_constraint{make()};
  });
}

}  // namespace

kvik_status kvik_constraint_json_schema(const char* schema, kvik_constraint** constraint) {
  return make_constraint(constraint, [&] { return kvik::Constraint::json_schema(&given(schema, "schema")); });
}

kvik_status kvik_constraint_json_object(kvik_constraint** constraint) {
  return make_constraint(constraint, [] { return kvik::Constraint::json_object(); });
}

kvik_status kvik_constraint_regex(const char* pattern, kvik_constraint** constraint) {
  return make_constraint(constraint, [&] { return kvik::Constraint::regex(&given(pattern, "pattern")); });
}

kvik_status kvik_constraint_grammar(const char* gbnf, kvik_constraint** constraint) {
  return make_constraint(constraint, [&] { return kvik::Constraint::grammar(&given(gbnf, "gbnf")); });
}

void kvik_constraint_free(kvik_constraint* constraint) { delete constraint; }

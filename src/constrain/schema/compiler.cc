#include "constrain/schema/compiler.h"

#include <algorithm>
#include <fmt/format.h>

#include "constrain/limits.h"
#include "constrain/schema/read_shape.h"
#include "constrain/schema/string_values.h"
#include "kvik/error.h"

namespace kvik::constrain {
namespace {

constexpr size_t kMostDistinct = 64;      // values that elements of an array can have if all must be different
constexpr int kMostPatternLength = 4096;  // of strings that match a pattern and have a maximal length

std::string key_of(const NumberRange& range, bool integer) {
  const auto text = [](const std::optional<Bound>& bound) { return bound ? bound->text + (bound->exclusive ? "x" : "") : std::string(); };
  return fmt::format("{}:{}:{}:{}", integer ? "integer" : "number", text(range.least), text(range.most), range.multiple_of.value_or(""));
}

std::string key_of(const Shape& strings) {
  std::string key = fmt::format("string:{}:{}", strings.min_length, strings.max_length);
  for (const StringPattern& pattern : strings.patterns)
    key += fmt::format(":{}{}{}:{}", pattern.whole ? 'w' : 'p', pattern.negated ? 'n' : ' ', pattern.pattern.size(), pattern.pattern);
  return key;
}

bool is_unconstrained(const SchemaRef& ref) { return *ref.schema == Json(true) || (ref.schema->is_object() && ref.schema->empty()); }

}  // namespace

Grammar SchemaCompiler::compile() {
  const RuleId root = grammar_.add_rule("the schema");
  grammar_.set_root(root);
  grammar_.define(root, value_of({{&document_, ""}}));
  while (!pending_.empty()) {
    const Pending next = std::move(pending_.front());
    pending_.pop_front();
    grammar_.define(next.rule, write_value(next.all));
  }
  grammar_.set_note(resolver_.note());
  return std::move(grammar_);
}

NodeId SchemaCompiler::value_of(const Conjunction& all) {
  Conjunction needed = all;
  std::erase_if(needed, is_unconstrained);
  if (needed.empty()) return json_.any_value();
  std::vector<const Json*> key;
  for (const SchemaRef& ref : needed) key.push_back(ref.schema);
  std::ranges::sort(key);
  key.erase(std::unique(key.begin(), key.end()), key.end());
  const auto [place, is_new] = rules_.try_emplace(std::move(key), 0);
  if (is_new) {
    place->second = grammar_.add_rule(needed.front().where.empty() ? "/" : needed.front().where);
    pending_.push_back({place->second, std::move(needed)});
  }
  return grammar_.call(place->second);
}

NodeId SchemaCompiler::write_value(const Conjunction& all) {
  std::vector<NodeId> options;
  for (const Shape& shape : resolver_.alternatives(all)) options.push_back(write_shape(shape));
  return grammar_.choice(std::move(options));
}

NodeId SchemaCompiler::write_shape(const Shape& shape) {
  if (shape.has_values) return write_literals(shape);
  std::vector<NodeId> options;
  const auto add_if = [&](uint8_t type, auto write) {
    if ((shape.types & type) != 0) options.push_back(write());
  };
  add_if(kObject, [&] { return write_object(shape); });
  add_if(kArray, [&] { return write_array(shape); });
  add_if(kString, [&] { return write_string(shape); });
  if ((shape.types & kNumber) != 0) {
    options.push_back(write_number(shape, false));
  } else {
    add_if(kInteger, [&] { return write_number(shape, true); });
  }
  add_if(kBoolean, [&] { return grammar_.choice({grammar_.bytes("true"), grammar_.bytes("false")}); });
  add_if(kNull, [&] { return grammar_.bytes("null"); });
  return grammar_.choice(std::move(options));
}

NodeId SchemaCompiler::write_literals(const Shape& shape) {
  std::vector<NodeId> options;
  for (const Json* value : shape.values) {
    if (resolver_.satisfies_shape(*value, shape)) options.push_back(json_.literal(*value));
  }
  if (options.empty()) resolver_.add_note(shape.where, "no value of enum or const satisfies the rest of the schema");
  return grammar_.choice(std::move(options));
}

NodeId SchemaCompiler::shared(const std::string& key, const std::function<NodeId()>& write) {
  const auto [place, is_new] = shared_.try_emplace(key, 0);
  if (is_new) {
    place->second = grammar_.add_rule(key);
    grammar_.define(place->second, write());
  }
  return grammar_.call(place->second);
}

NodeId SchemaCompiler::write_number(const Shape& shape, bool integer) {
  if (shape.numbers.is_open()) return integer ? json_.any_integer() : json_.any_number();
  return shared(key_of(shape.numbers, integer), [&] { return write_range(shape, integer); });
}

NodeId SchemaCompiler::write_range(const Shape& shape, bool integer) {
  const NumberTexts texts = integer ? integers_in(shape.numbers, shape.where) : numbers_in(shape.numbers, shape.where);
  std::vector<NodeId> options;
  for (const CharDfa& dfa : texts.positive) options.push_back(dfa.to_node(grammar_));
  for (const CharDfa& dfa : texts.negative) options.push_back(grammar_.sequence({grammar_.bytes("-"), dfa.to_node(grammar_)}));
  const auto none_of = [](const std::vector<CharDfa>& list) { return std::ranges::all_of(list, &CharDfa::is_empty); };
  if (none_of(texts.positive) && none_of(texts.negative)) resolver_.add_note(shape.where, "no number is between minimum and maximum");
  return grammar_.choice(std::move(options));
}

NodeId SchemaCompiler::write_string(const Shape& shape) {
  if (shape.max_length >= 0 && shape.min_length > shape.max_length) {
    resolver_.add_note(shape.where, fmt::format("minLength {} is above maxLength {}", shape.min_length, shape.max_length));
    return grammar_.never();
  }
  if (shape.patterns.empty()) return json_.string_of_length(shape.min_length, shape.max_length);
  return shared(key_of(shape), [&] {
    Shape written = shape;
    if (shape.max_length > kMostPatternLength) written.max_length = std::max(kMostPatternLength, shape.min_length);
    const CharDfa values = strings_to_write(written);
    if (values.is_empty()) resolver_.add_note(shape.where, "no string satisfies pattern, format and lengths");
    return json_.string_in(values);
  });
}

NodeId SchemaCompiler::write_array(const Shape& shape) {
  size_t n_prefix = 0;
  for (const ArrayPart& part : shape.arrays) n_prefix = std::max(n_prefix, part.prefix.size());
  const int most = shape.max_items;
  if (most >= 0 && shape.min_items > most) {
    resolver_.add_note(shape.where, fmt::format("minItems {} is above maxItems {}", shape.min_items, most));
    return grammar_.never();
  }
  if (shape.unique_items && (most < 0 || most > 1)) return write_distinct(shape);
  if (most >= 0) n_prefix = std::min(n_prefix, static_cast<size_t>(most));
  if (!shape.contains.empty()) return write_counted(shape, n_prefix);
  Graph graph;  // state i: i elements are read
  std::vector<NodeId> ends;
  for (size_t i = 0; i < n_prefix; ++i) {
    const NodeId value = value_of(shape.element(i));
    graph.edges.push_back({static_cast<uint32_t>(i), graph.add_state(), i == 0 ? value : json_.after_comma(value)});
  }
  for (uint32_t i = 0; i < n_prefix; ++i) {
    if (static_cast<int>(i) >= shape.min_items) graph.accepting.push_back(i);
  }
  const auto n = static_cast<int>(n_prefix);
  const uint32_t last = static_cast<uint32_t>(n_prefix), end = graph.add_state();
  graph.accepting.push_back(end);
  if (shape.min_items <= n) graph.accepting.push_back(last);
  if (most < 0 || most > n) {
    const NodeId value = value_of(shape.element(n_prefix));
    const int before = n == 0 ? 1 : 0;  // the first element has no comma before it
    const int least_more = std::max(0, shape.min_items - n - before);
    const NodeId more = grammar_.repeat(json_.after_comma(value), least_more, most < 0 ? kNoLimit : most - n - before);
    graph.edges.push_back({last, end, before == 1 ? grammar_.sequence({value, more}) : more});
  }
  return grammar_.sequence({grammar_.bytes("["), json_.space(), grammar_.graph(std::move(graph)), json_.space(), grammar_.bytes("]")});
}

// Elements that are all different: of listed values, in the order of the list.
NodeId SchemaCompiler::write_distinct(const Shape& shape) {
  const std::optional<std::vector<const Json*>> values = resolver_.listed_values(shape.element(0));
  const bool is_prefixed = std::ranges::any_of(shape.arrays, [](const ArrayPart& part) { return !part.prefix.empty(); });
  if (!values || is_prefixed || values->size() > kMostDistinct || !shape.contains.empty())
    fail_schema(shape.where, fmt::format("uniqueItems is supported only for elements of at most {} listed values (enum)", kMostDistinct));
  const auto least = static_cast<size_t>(shape.min_items);
  const size_t most = shape.max_items < 0 ? values->size() : std::min(static_cast<size_t>(shape.max_items), values->size());
  if (least > most) resolver_.add_note(shape.where, fmt::format("there are fewer than {} different elements", least));
  Graph graph;
  std::vector<uint32_t> row = {0};  // by the number of elements that were written
  for (const Json* value : *values) {
    std::vector<uint32_t> next;
    for (size_t n = 0; n <= std::min(row.size(), most); ++n) next.push_back(graph.add_state());
    for (size_t n = 0; n < row.size(); ++n) {
      graph.edges.push_back({row[n], next[n], grammar_.empty()});
      const NodeId element = json_.literal(*value);
      if (n < most) graph.edges.push_back({row[n], next[n + 1], n == 0 ? element : json_.after_comma(element)});
    }
    row = std::move(next);
  }
  for (size_t n = least; n < row.size(); ++n) graph.accepting.push_back(row[n]);
  return grammar_.sequence({grammar_.bytes("["), json_.space(), grammar_.graph(std::move(graph)), json_.space(), grammar_.bytes("]")});
}

}  // namespace kvik::constrain

#include <algorithm>
#include <fmt/format.h>

#include "constrain/limits.h"
#include "constrain/schema/compiler.h"
#include "constrain/schema/read_shape.h"
#include "constrain/schema/string_values.h"

namespace kvik::constrain {
namespace {

constexpr size_t kMostPatterns = 6;           // of patternProperties that are combined
constexpr size_t kMostCountStates = 100'000;  // properties times counts

struct Property {
  NodeId entry;
  bool required;
};

// Properties in their order, then free entries. A state is the number of properties considered and the number of entries written.
class ObjectGraph {
 public:
  ObjectGraph(Grammar& grammar, JsonRules& json, const Shape& shape) : grammar_(grammar), json_(json), shape_(shape) {}

  NodeId write(const std::vector<Property>& properties, const std::vector<NodeId>& free) {
    const bool limited = shape_.max_properties >= 0;
    most_named_ = std::min(limited ? shape_.max_properties : std::max(1, shape_.min_properties), static_cast<int>(properties.size()));
    most_free_ = free.empty() ? 0 : limited ? shape_.max_properties : 1;
    if ((properties.size() + static_cast<size_t>(most_free_)) * static_cast<size_t>(most_named_ + 1) > kMostCountStates)
      fail_schema(shape_.where, "minProperties and maxProperties are too large to be counted");
    std::vector<uint32_t> row(static_cast<size_t>(most_named_) + 1, kNoNode);  // by the number of properties that were written
    row[0] = 0;
    for (const Property& property : properties) row = after(property, row);
    for (int n = 0; n <= most_named_; ++n) {
      if (row[static_cast<size_t>(n)] != kNoNode) add_free(row[static_cast<size_t>(n)], n, free);
    }
    return grammar_.graph(std::move(graph_));
  }

 private:
  static constexpr uint32_t kNoNode = UINT32_MAX;

  NodeId with_comma(NodeId entry, bool is_first) { return is_first ? entry : json_.after_comma(entry); }

  std::vector<uint32_t> after(const Property& property, const std::vector<uint32_t>& row) {
    std::vector<uint32_t> next(row.size(), kNoNode);
    const auto state = [&](size_t n) { return next[n] == kNoNode ? next[n] = graph_.add_state() : next[n]; };
    const NodeId later = json_.after_comma(property.entry);
    for (size_t n = 0; n < row.size(); ++n) {
      if (row[n] == kNoNode) continue;
      const bool is_full = n + 1 == row.size();
      if (!is_full || shape_.max_properties < 0)
        graph_.edges.push_back({row[n], state(is_full ? n : n + 1), n == 0 ? property.entry : later});
      if (!property.required) graph_.edges.push_back({row[n], state(n), grammar_.empty()});
    }
    return next;
  }

  // Free entries may repeat a name: for minProperties all of them count as one.
  void add_free(uint32_t from, int n_named, const std::vector<NodeId>& free) {
    if (n_named >= shape_.min_properties) graph_.accepting.push_back(from);
    if (free.empty()) return;
    const bool limited = shape_.max_properties >= 0;
    const NodeId entry = grammar_.choice(free);
    const bool enough = n_named + 1 >= shape_.min_properties;
    uint32_t at = from;
    for (int i = 0; i < (limited ? most_free_ - n_named : 1); ++i) {
      const uint32_t next = graph_.add_state();
      graph_.edges.push_back({at, next, with_comma(entry, n_named + i == 0)});
      if (enough) graph_.accepting.push_back(next);
      at = next;
    }
    if (!limited) graph_.edges.push_back({at, at, json_.after_comma(entry)});
  }

  Grammar& grammar_;
  JsonRules& json_;
  const Shape& shape_;
  Graph graph_;
  int most_named_ = 0, most_free_ = 0;
};

}  // namespace

bool SchemaCompiler::is_name_allowed(const Shape& shape, const std::string& name) {
  return resolver_.satisfies(Json(name), shape.property_names);
}

NodeId SchemaCompiler::write_object(const Shape& shape) {
  if (shape.max_properties >= 0 && shape.min_properties > shape.max_properties)
    resolver_.add_note(shape.where, fmt::format("minProperties {} is above maxProperties {}", shape.min_properties, shape.max_properties));
  for (const std::string& name : shape.required) {
    if (std::ranges::find(shape.forbidden, name) == shape.forbidden.end()) continue;
    resolver_.add_note(shape.where, fmt::format("the property '{}' is required and excluded", name));
    return grammar_.never();
  }
  const std::vector<std::string> names = shape.names();
  std::vector<Property> properties;
  for (const std::string& name : names) {
    const bool required = std::ranges::find(shape.required, name) != shape.required.end();
    if (!is_name_allowed(shape, name)) {
      if (!required) continue;
      resolver_.add_note(shape.where, fmt::format("the required name '{}' does not satisfy propertyNames", name));
      return grammar_.never();
    }
    properties.push_back({json_.entry(json_.key(name), value_of(shape.value_of(name))), required});
  }
  const std::vector<NodeId> free = free_entries(shape, names);
  if (static_cast<size_t>(shape.min_properties) > properties.size() + (free.empty() ? 0 : 1))
    resolver_.add_note(shape.where, fmt::format("minProperties {} is not supported beyond the listed properties", shape.min_properties));
  const NodeId entries = ObjectGraph(grammar_, json_, shape).write(properties, free);
  return grammar_.sequence({grammar_.bytes("{"), json_.space(), entries, json_.space(), grammar_.bytes("}")});
}

CharDfa SchemaCompiler::names_allowed(const Shape& shape) {
  CharDfa allowed = CharDfa::of_lengths(0, kNoLimit);
  for (const SchemaRef& ref : shape.property_names) {
    CharDfa none_of = CharDfa::of_lengths(0, kNoLimit);  // of the alternatives
    for (const Shape& option : resolver_.alternatives(ref)) {
      if ((option.types & kString) == 0) continue;
      CharDfa values = string_values(option);
      if (option.has_values) {
        std::vector<std::string> texts;
        for (const Json* value : option.values) {
          if (value->is_string()) texts.push_back(value->get<std::string>());
        }
        values = values.intersect(CharDfa::of_texts(std::move(texts)));
      }
      none_of = none_of.intersect(values.complement());
    }
    allowed = allowed.intersect(none_of.complement());
  }
  return allowed;
}

// One entry for each set of patterns that a name can match at the same time.
std::vector<NodeId> SchemaCompiler::free_entries(const Shape& shape, const std::vector<std::string>& names) {
  std::vector<std::string> patterns;
  for (const ObjectPart& part : shape.objects) {
    for (const auto& [pattern, schema] : part.patterns) {
      if (std::ranges::find(patterns, pattern) == patterns.end()) patterns.push_back(pattern);
    }
  }
  if (patterns.size() > kMostPatterns)
    fail_schema(shape.where, fmt::format("more than {} different patternProperties are not supported", kMostPatterns));
  if (patterns.empty() && !shape.is_open()) return {};
  const bool any_name = patterns.empty() && names.empty() && shape.forbidden.empty() && shape.property_names.empty();
  std::vector<CharDfa> matching, others_of;  // not complements: of names on which dialects differ neither is sure
  for (const std::string& pattern : patterns) {
    matching.push_back(dfa_of({pattern, shape.where + "/patternProperties"}));
    others_of.push_back(dfa_of({pattern, shape.where + "/patternProperties", false, true}));
  }
  CharDfa others = names_allowed(shape);
  for (const std::vector<std::string>* list : {&names, &shape.forbidden}) {
    if (!list->empty()) others = others.intersect(CharDfa::of_texts(*list).complement());
  }
  std::vector<NodeId> entries;
  for (uint32_t chosen = 0; chosen < uint32_t{1} << patterns.size(); ++chosen) {
    if (chosen == 0 && !shape.is_open()) continue;
    Conjunction all;
    for (const ObjectPart& part : shape.objects) {
      bool found = false;
      for (const auto& [pattern, schema] : part.patterns) {
        const auto i = static_cast<size_t>(std::ranges::find(patterns, pattern) - patterns.begin());
        if ((chosen >> i & 1) == 0) continue;
        all.push_back(schema);
        found = true;
      }
      if (!found && part.additional) all.push_back(*part.additional);
    }
    if (std::ranges::any_of(all, [](const SchemaRef& ref) { return *ref.schema == Json(false); })) continue;
    CharDfa keys = others;
    for (size_t i = 0; i < patterns.size(); ++i) keys = keys.intersect((chosen >> i & 1) != 0 ? matching[i] : others_of[i]);
    if (keys.is_empty()) continue;
    entries.push_back(json_.entry(any_name ? json_.any_key() : json_.key_in(keys), value_of(all)));
  }
  return entries;
}

}  // namespace kvik::constrain

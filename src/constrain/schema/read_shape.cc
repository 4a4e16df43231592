#include "constrain/schema/read_shape.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>
#include <string_view>

#include "base/edit_distance.h"
#include "constrain/limits.h"
#include "constrain/schema/formats.h"
#include "constrain/schema/string_values.h"
#include "kvik/error.h"

namespace kvik::constrain {
namespace {

// Unsupported keywords of any draft that restrict values. Names that are in no draft are annotations, as the specification requires.
constexpr std::array<std::string_view, 5> kUnsupported = {"$dynamicRef", "$recursiveRef", "extends", "disallow", "divisibleBy"};
constexpr std::array<std::string_view, 14> kResolvedElsewhere = {"$ref",
                                                                 "allOf",
                                                                 "anyOf",
                                                                 "oneOf",
                                                                 "nullable",
                                                                 "not",
                                                                 "if",
                                                                 "then",
                                                                 "else",
                                                                 "dependencies",
                                                                 "dependentRequired",
                                                                 "dependentSchemas",
                                                                 "unevaluatedProperties",
                                                                 "unevaluatedItems"};
constexpr size_t kLongKeyword = 7;   // letters; words near a shorter one may be meant as they are
constexpr size_t kMostMistakes = 2;  // in a keyword that is misspelled

std::string escaped(std::string key) {
  for (size_t at = 0; (at = key.find_first_of("~/", at)) != std::string::npos; at += 2) key.replace(at, 1, key[at] == '~' ? "~0" : "~1");
  return key;
}

std::string lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return lower;
}

// The edit distance of a name to a keyword ("maxLenght", "minlength"), at most kMostMistakes + 1. Names that begin with a special
// character are extensions.
size_t mistakes_in(std::string_view word, std::string_view keyword) {
  const bool is_like = keyword.size() >= kLongKeyword && word.size() + kMostMistakes >= keyword.size() &&
                       word.size() <= keyword.size() + kMostMistakes && std::isalpha(static_cast<unsigned char>(word[0]));
  return is_like ? edit_distance(lower(word), lower(keyword)) : kMostMistakes + 1;
}

class ShapeReader {
 public:
  explicit ShapeReader(const SchemaRef& ref) : ref_(ref) {}

  Shape read() {
    shape_.where = ref_.where;
    shape_.sources.push_back(ref_);
    for (const auto& item : ref_.schema->items()) read_keyword(item.key(), item.value());
    if (!object_.properties.empty() || !object_.patterns.empty() || object_.additional) shape_.objects.push_back(std::move(object_));
    if (!array_.prefix.empty() || array_.items) shape_.arrays.push_back(std::move(array_));
    if (contains_.schema.schema != nullptr) shape_.contains.push_back(std::move(contains_));
    return std::move(shape_);
  }

 private:
  [[noreturn]] void fail(const std::string& key, const std::string& why) const { fail_schema(ref_.where + "/" + escaped(key), why); }

  void read_keyword(const std::string& key, const Json& value) {
    using Read = void (ShapeReader::*)(const std::string&, const Json&);
    static const std::map<std::string_view, Read> kReaders = {{"type", &ShapeReader::read_type},
                                                              {"enum", &ShapeReader::read_enum},
                                                              {"const", &ShapeReader::read_const},
                                                              {"minimum", &ShapeReader::read_bound},
                                                              {"maximum", &ShapeReader::read_bound},
                                                              {"exclusiveMinimum", &ShapeReader::read_bound},
                                                              {"exclusiveMaximum", &ShapeReader::read_bound},
                                                              {"multipleOf", &ShapeReader::read_multiple},
                                                              {"minLength", &ShapeReader::read_count},
                                                              {"maxLength", &ShapeReader::read_count},
                                                              {"minItems", &ShapeReader::read_count},
                                                              {"maxItems", &ShapeReader::read_count},
                                                              {"minProperties", &ShapeReader::read_count},
                                                              {"maxProperties", &ShapeReader::read_count},
                                                              {"pattern", &ShapeReader::read_pattern},
                                                              {"format", &ShapeReader::read_format},
                                                              {"items", &ShapeReader::read_items},
                                                              {"prefixItems", &ShapeReader::read_prefix},
                                                              {"additionalItems", &ShapeReader::read_additional_items},
                                                              {"uniqueItems", &ShapeReader::read_unique},
                                                              {"contains", &ShapeReader::read_contains},
                                                              {"minContains", &ShapeReader::read_count},
                                                              {"maxContains", &ShapeReader::read_count},
                                                              {"properties", &ShapeReader::read_properties},
                                                              {"patternProperties", &ShapeReader::read_properties},
                                                              {"additionalProperties", &ShapeReader::read_additional},
                                                              {"propertyNames", &ShapeReader::read_property_names},
                                                              {"required", &ShapeReader::read_required}};
    if (const auto reader = kReaders.find(key); reader != kReaders.end()) {
      (this->*reader->second)(key, value);
      return;
    }
    if (std::ranges::find(kResolvedElsewhere, key) != kResolvedElsewhere.end()) return;
    if (std::ranges::find(kUnsupported, key) != kUnsupported.end())
      fail_schema(ref_.where, fmt::format("the keyword '{}' is not supported", key));
    std::string_view nearest;
    size_t distance = kMostMistakes + 1;
    for (const auto& [known, reader] : kReaders) {
      if (const size_t mistakes = mistakes_in(key, known); mistakes < distance) nearest = known, distance = mistakes;
    }
    if (!nearest.empty()) fail_schema(ref_.where, fmt::format("the keyword '{}' is not supported; did you mean '{}'?", key, nearest));
  }

  void read_type(const std::string& key, const Json& value) {
    static const std::map<std::string, uint8_t> kTypes = {
        {"null", kNull},     {"boolean", kBoolean}, {"integer", kInteger}, {"number", kNumber | kInteger},
        {"string", kString}, {"array", kArray},     {"object", kObject}};
    shape_.types = 0;
    const auto add = [&](const Json& name) {
      const auto type = name.is_string() ? kTypes.find(name.get<std::string>()) : kTypes.end();
      if (type == kTypes.end()) fail(key, "a type was expected: null, boolean, integer, number, string, array or object");
      shape_.types |= type->second;
    };
    if (!value.is_array()) {
      add(value);
      return;
    }
    for (const Json& name : value) add(name);
  }

  void read_enum(const std::string& key, const Json& value) {
    if (!value.is_array()) fail(key, "a list was expected");
    std::vector<const Json*> values;
    for (const Json& one : value) values.push_back(&one);
    add_values(std::move(values));
  }
  void read_const(const std::string&, const Json& value) { add_values({&value}); }
  void add_values(std::vector<const Json*> values) {
    Shape other;
    other.has_values = true;
    other.values = std::move(values);
    shape_.join(other);
  }

  void read_bound(const std::string& key, const Json& value) {
    const bool lower = key.ends_with("inimum");
    const bool exclusive = key.starts_with("exclusive");
    if (exclusive && value.is_boolean()) {  // draft 4: says it of minimum or maximum
      const auto bound = ref_.schema->find(lower ? "minimum" : "maximum");
      if (value.get<bool>() && bound != ref_.schema->end()) add_bound(*bound, lower, true);
      return;
    }
    if (!value.is_number()) fail(key, "a number was expected");
    add_bound(value, lower, exclusive);
  }
  void add_bound(const Json& value, bool lower, bool exclusive) {
    if (!value.is_number()) return;
    Shape other;
    (lower ? other.numbers.least : other.numbers.most) = Bound{value.dump(), value.get<double>(), exclusive};
    shape_.join(other);
  }
  void read_multiple(const std::string& key, const Json& value) {
    if (!value.is_number()) fail(key, "a number was expected");
    shape_.numbers.multiple_of = value.dump();
  }

  void read_count(const std::string& key, const Json& value) {
    const bool whole = value.is_number() && value.get<double>() >= 0 &&
                       value.get<double>() == static_cast<double>(static_cast<int64_t>(value.get<double>()));
    if (!whole) fail(key, "a number from 0 on was expected");
    const bool too_large = value.get<double>() > kMostRepetitions;
    if (too_large && key.starts_with("min"))
      fail(key, fmt::format("{} is not supported; at most {} was expected", value.dump(), kMostRepetitions));
    const int count = too_large ? kMostRepetitions : static_cast<int>(value.get<double>());  // of a maximum: no more are written
    if (key == "minLength") shape_.min_length = count;
    if (key == "maxLength") shape_.max_length = count;
    if (key == "minItems") shape_.min_items = count;
    if (key == "maxItems") shape_.max_items = count;
    if (key == "minProperties") shape_.min_properties = count;
    if (key == "maxProperties") shape_.max_properties = count;
    if (key == "minContains") contains_.least = count;
    if (key == "maxContains") contains_.most = count;
  }

  void read_pattern(const std::string& key, const Json& value) {
    if (!value.is_string()) fail(key, "a string was expected");
    shape_.patterns.push_back({value.get<std::string>(), ref_.where + "/pattern", false});
  }

  void read_format(const std::string& key, const Json& value) {
    if (!value.is_string()) fail(key, "a string was expected");
    const auto format = value.get<std::string>();
    const auto add_range = [&](const char* least, const char* most) {
      Shape other;
      other.numbers.least = Bound{least, std::stod(least)};
      other.numbers.most = Bound{most, std::stod(most)};
      shape_.join(other);
    };
    if (format == "int32") return add_range("-2147483648", "2147483647");
    if (is_annotation_format(format)) return;
    const std::optional<std::string> pattern = pattern_of_format(format);
    const auto type = ref_.schema->find("type");
    const bool may_be_string = type == ref_.schema->end() || *type == "string" || type->is_array();
    if (!pattern && !may_be_string) return;  // formats of strings have no effect on others
    if (!pattern) fail(key, fmt::format("the format '{}' is not supported; {} are", format, supported_formats()));
    shape_.patterns.push_back({*pattern, ref_.where + "/format", true});
  }

  void check_schema(const std::string& key, const Json& value) const {
    if (!value.is_object() && !value.is_boolean()) fail(key, "a schema was expected");
  }
  void read_items(const std::string& key, const Json& value) {
    if (value.is_array()) return read_prefix(key, value);  // before draft 2020
    check_schema(key, value);
    array_.items = child(ref_, key);
  }
  void read_prefix(const std::string& key, const Json& value) {
    if (!value.is_array()) fail(key, "a list of schemas was expected");
    for (size_t i = 0; i < value.size(); ++i) {
      check_schema(key, value[i]);
      array_.prefix.push_back(child(ref_, key, i));
    }
  }
  void read_additional_items(const std::string& key, const Json& value) {
    check_schema(key, value);
    const auto items = ref_.schema->find("items");
    if (items != ref_.schema->end() && items->is_array()) array_.items = child(ref_, key);
  }
  void read_contains(const std::string& key, const Json& value) {
    check_schema(key, value);
    contains_.schema = child(ref_, key);
  }
  void read_unique(const std::string& key, const Json& value) {
    if (!value.is_boolean()) fail(key, "true or false was expected");
    shape_.unique_items = value.get<bool>();
  }

  void read_properties(const std::string& key, const Json& value) {
    if (!value.is_object()) fail(key, "an object with a schema for each name was expected");
    const SchemaRef all = child(ref_, key);
    for (const auto& item : value.items()) {
      check_schema(key, item.value());
      if (key == "patternProperties") check_pattern({item.key(), all.where});
      (key == "properties" ? object_.properties : object_.patterns).emplace_back(item.key(), child(all, item.key()));
    }
  }
  void read_additional(const std::string& key, const Json& value) {
    check_schema(key, value);
    object_.additional = child(ref_, key);
  }
  void read_property_names(const std::string& key, const Json& value) {
    check_schema(key, value);
    shape_.property_names.push_back(child(ref_, key));
  }
  void read_required(const std::string& key, const Json& value) {
    if (value.is_boolean()) return;  // draft 3, still seen beside types
    if (!value.is_array()) fail(key, "a list of names was expected");
    for (const Json& name : value) {
      if (!name.is_string()) fail(key, "a list of names was expected");
      if (std::ranges::find(shape_.required, name.get<std::string>()) == shape_.required.end())
        shape_.required.push_back(name.get<std::string>());
    }
  }

  const SchemaRef& ref_;
  Shape shape_;
  ObjectPart object_;
  ArrayPart array_;
  ContainsPart contains_;
};

}  // namespace

void fail_schema(const std::string& where, const std::string& why) {
  throw Error(Code::kBadArgument, fmt::format("the JSON schema, {}: {}", where.empty() ? "/" : where, why));
}

SchemaRef child(const SchemaRef& of, const std::string& key) { return {&of.schema->at(key), of.where + "/" + escaped(key)}; }
SchemaRef child(const SchemaRef& of, const std::string& key, size_t index) {
  return {&of.schema->at(key).at(index), fmt::format("{}/{}/{}", of.where, escaped(key), index)};
}

Shape read_shape(const SchemaRef& ref) { return ShapeReader(ref).read(); }

}  // namespace kvik::constrain

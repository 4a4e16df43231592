#include "server/json/fields.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace kvik::server {
namespace {

// What was found, short enough to show.
std::string shown(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_string()) return value.get_ref<const std::string&>().size() > 40 ? "a long text" : dump(value);
  return dump(value);
}

// Some clients write 16.0.
std::optional<int64_t> whole_number(const Json& value) {
  constexpr double kTooLarge = 0x1p63;
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return std::nullopt;
  if (value.is_number_integer()) return value.get<int64_t>();
  const double number = value.is_number_float() ? value.get<double>() : std::nan("");
  if (number != std::floor(number) || number < -kTooLarge || number >= kTooLarge) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

bool is_token_ids(const Json& json) {
  const auto is_id = [](const Json& id) { return id.is_number_integer() && id >= 0 && id <= INT32_MAX; };
  return json.is_array() && !json.empty() && std::ranges::all_of(json, is_id);
}

Json parse_body(std::string_view body) {
  int n_keys = 0;
  const auto check_size = [&](int depth, Json::parse_event_t event, Json&) {
    if (depth > kMostNested) throw ApiError(400, "", fmt::format("the body is nested deeper than {} levels", kMostNested));
    if (event == Json::parse_event_t::key && ++n_keys > kMostKeys)
      throw ApiError(400, "", fmt::format("the body has more than {} keys", kMostKeys));
    return true;
  };
  Json json;
  try {
    json = Json::parse(body, check_size);
  } catch (const Json::parse_error& e) {
    throw ApiError(400, "", fmt::format("the body is not valid JSON: error at byte {}; a JSON object was expected", e.byte));
  } catch (const Json::exception&) { throw ApiError(400, "", "the body has a number that is out of range"); }
  if (!json.is_object()) throw ApiError(400, "", "the body is not a JSON object");
  return json;
}

Fields::Fields(const Json& object, std::string path) : object_(&object), path_(std::move(path)) {
  if (!object.is_object()) throw ApiError(400, "", fmt::format("'{}' is {}; an object was expected", path_, shown(object)), path_);
}

std::string Fields::path_of(std::string_view name) const { return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name); }

void Fields::fail(std::string_view name, std::string_view expected) const {
  const Json* const found = find(name);
  const std::string path = path_of(name);
  throw ApiError(400, "", fmt::format("'{}' is {}; {} was expected", path, found ? shown(*found) : "missing", expected), path);
}

const Json* Fields::find(std::string_view name) const {
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> Fields::text(std::string_view name) const {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail(name, "a string");
  return value->get<std::string>();
}

std::string Fields::required_text(std::string_view name) const {
  std::optional<std::string> found = text(name);
  if (!found) fail(name, "a string");
  return std::move(*found);
}

std::optional<bool> Fields::boolean(std::string_view name) const {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail(name, "true or false");
  return value->get<bool>();
}

std::optional<double> Fields::number(std::string_view name, double lowest, double highest) const {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= lowest && number <= highest)) fail(name, fmt::format("a number from {} to {}", lowest, highest));
  return number;
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t lowest, int64_t highest) const {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::string expected = fmt::format("a whole number from {} to {}", lowest, highest);
  const std::optional<int64_t> integer = whole_number(*value);
  if (!integer || *integer < lowest || *integer > highest) fail(name, expected);
  return integer;
}

std::vector<std::string> Fields::texts(std::string_view name, size_t most) const {
  const Json* const value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  const std::string expected = fmt::format("a string or a list of at most {} strings", most);
  if (!value->is_array() || value->size() > most) fail(name, expected);
  std::vector<std::string> texts;
  for (const Json& each : *value) {
    if (!each.is_string()) fail(name, expected);
    texts.push_back(each.get<std::string>());
  }
  return texts;
}

std::optional<Fields> Fields::object(std::string_view name) const {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  return Fields(*value, path_of(name));
}

std::vector<Fields> Fields::objects(std::string_view name, size_t most) const {
  const Json* const value = find(name);
  if (value == nullptr) return {};
  if (!value->is_array() || value->size() > most) fail(name, fmt::format("a list of at most {} objects", most));
  std::vector<Fields> objects;
  for (size_t i = 0; i < value->size(); ++i) objects.emplace_back((*value)[i], fmt::format("{}[{}]", path_of(name), i));
  return objects;
}

}  // namespace kvik::server

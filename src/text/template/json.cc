#include "text/template/json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "text/template/compare.h"
#include "text/template/print.h"
#include "text/template/unicode.h"

namespace kvik::text::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style) {}

  std::string run(const Value& value) {
    write(value);
    return std::move(out_);
  }

 private:
  void write(const Value& value) {
    runtime_.step();
    runtime_.check_room(out_.size());
    switch (value.kind()) {
      case Kind::kNone: out_ += "null"; return;
      case Kind::kBool: out_ += value.as_bool() ? "true" : "false"; return;
      case Kind::kFloat: out_ += real(value.as_float()); return;
      case Kind::kInt:
      case Kind::kBigInt: repr_to(runtime_, value, out_); return;
      case Kind::kText:
        runtime_.work(value.as_text().size());
        runtime_.check_room(out_.size() + 2 * value.as_text().size());
        return append_json_text(out_, value.as_text(), style_.ascii_only);
      case Kind::kList:
      case Kind::kTuple: return write_items(value.as_items());
      case Kind::kDict: return write_dict(value.as_dict());
      default: fail("Object of type {} is not JSON serializable", type_name(value));
    }
  }

  static std::string real(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return print_real(value);
  }

  void new_line() {
    if (!style_.indent) return;
    out_ += '\n';
    runtime_.check_room(out_.size() + style_.indent->size() * depth_);
    for (size_t i = 0; i < depth_; ++i) out_ += *style_.indent;
  }

  void write_items(const std::vector<Value>& items) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    ++depth_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line();
      write(items[i]);
    }
    --depth_;
    new_line();
    out_ += ']';
  }

  std::string key_of(const Value& key) {
    switch (key.kind()) {
      case Kind::kText: return key.as_text();
      case Kind::kNone: return "null";
      case Kind::kBool: return key.as_bool() ? "true" : "false";
      case Kind::kFloat: return real(key.as_float());
      case Kind::kInt:
      case Kind::kBigInt: return represented(runtime_, key);
      default: fail("keys must be str, int, float, bool or None, not {}", type_name(key));
    }
  }

  void write_dict(const Dict& dict) {
    if (dict.size() == 0) {
      out_ += "{}";
      return;
    }
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sorts_keys) {
      for (const Dict::Entry* entry : entries) order(entry->key, entries.front()->key, "<", runtime_.steps_left());
      std::stable_sort(entries.begin(), entries.end(), [&](const Dict::Entry* a, const Dict::Entry* b) {
        return order(a->key, b->key, "<", runtime_.steps_left()) == Order::kLess;
      });
    }
    out_ += '{';
    ++depth_;
    bool first = true;
    for (const Dict::Entry* entry : entries) {
      if (!std::exchange(first, false)) out_ += style_.item_separator;
      new_line();
      append_json_text(out_, key_of(entry->key), style_.ascii_only);
      out_ += style_.key_separator;
      write(entry->value);
    }
    --depth_;
    new_line();
    out_ += '}';
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  std::string out_;
  size_t depth_ = 0;
};

// Builds values during parsing: numbers come with their text, so integers are never rounded.
class ValueBuilder {
 public:
  using Json = nlohmann::json;

  bool null() { return put(Value::none()); }
  bool boolean(bool value) { return put(Value::boolean(value)); }
  bool number_integer(Json::number_integer_t value) { return put(Value::integer(value)); }
  bool number_unsigned(Json::number_unsigned_t value) {
    if (value <= static_cast<uint64_t>(INT64_MAX)) return put(Value::integer(static_cast<int64_t>(value)));
    return put(Value::big(*BigInt::parse(std::to_string(value))));
  }
  bool number_float(Json::number_float_t value, const std::string& text) {
    if (text.find_first_of(".eE") != std::string::npos) return put(Value::real(value));
    return put(Value::big(*BigInt::parse(text)));
  }
  bool string(std::string& value) { return put(Value::text(std::move(value))); }
  bool binary(Json::binary_t&) { return false; }
  bool start_object(size_t) { return open(true); }
  bool start_array(size_t) { return open(false); }
  bool key(std::string& key) {
    open_.back().key = Value::text(std::move(key));
    return true;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception& e) {
    // A number out of range of double is not a syntax error: Python parses it as infinity.
    error_ = e.id == 406 ? "holds a number too large for any type" : fmt::format("is not valid JSON at byte {}", byte);
    return false;
  }

  const std::string& error() const { return error_; }
  Value take() { return std::move(result_); }

 private:
  struct Container {
    bool is_dict;
    std::shared_ptr<Dict> dict;
    std::vector<Value> items;
    Value key;
  };

  bool put(Value value) {
    if (open_.empty())
      result_ = std::move(value);
    else if (open_.back().is_dict)
      open_.back().dict->set(std::move(open_.back().key), std::move(value));
    else
      open_.back().items.push_back(std::move(value));
    return true;
  }

  bool open(bool is_dict) {
    if (open_.size() + 2 >= static_cast<size_t>(kMaxNesting)) {
      error_ = fmt::format("is nested more than {} deep", kMaxNesting - 2);
      return false;
    }
    open_.push_back({is_dict, is_dict ? std::make_shared<Dict>() : nullptr, {}, {}});
    return true;
  }

  bool close() {
    Container done = std::move(open_.back());
    open_.pop_back();
    return put(done.is_dict ? Value::dict(std::move(done.dict)) : Value::list(std::move(done.items)));
  }

  std::vector<Container> open_;
  Value result_;
  std::string error_;
};

}  // namespace

void append_json_text(std::string& out, std::string_view text, bool ascii_only) {
  out += '"';
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    const char32_t point = next_point(text, at);
    const auto code = static_cast<uint32_t>(point);
    constexpr std::string_view kSpecial = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    const size_t special = point < 0x80 ? kSpecial.find(static_cast<char>(point)) : std::string_view::npos;
    if (special != std::string_view::npos)
      out += {'\\', kLetters[special]};
    else if (point < 0x20 || (ascii_only && point >= 0x7F && point < 0x10000))
      out += fmt::format("\\u{:04x}", code);
    else if (ascii_only && point >= 0x10000)
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10), 0xDC00 + ((code - 0x10000) & 0x3FF));
    else
      out.append(text.substr(start, at - start));
  }
  out += '"';
}

std::string to_json(Runtime& runtime, const Value& value, const JsonStyle& style) { return JsonWriter(runtime, style).run(value); }

Value from_json(std::string_view json, std::string_view origin) {
  const std::string text = utf8::replaced(json);
  ValueBuilder builder;
  if (nlohmann::json::sax_parse(text, &builder)) return builder.take();
  throw Error(Code::kBadArgument, fmt::format("{} {}", origin, builder.error()));
}

}  // namespace kvik::text::jinja

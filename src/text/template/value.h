#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/big_int.h"

namespace kvik::text::jinja {

class Dict;
class Object;
class Value;

// Memory used by the values of one rendering. Outlives them.
struct Meter {
  size_t live_bytes = 0;
};

// The shared contents of a value. Text, lists, tuples and dicts are immutable once visible to a template.
class Cell {
 public:
  Cell() = default;
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;
  virtual ~Cell() {
    if (meter_ != nullptr) meter_->live_bytes -= charged_bytes_;
  }

  int nesting() const { return nesting_; }  // 1 + the maximum of the contained values
  void set_nesting(int nesting) { nesting_ = nesting; }
  void charge(Meter& meter, size_t n_bytes) {
    meter_ = &meter;
    charged_bytes_ += n_bytes;
    meter.live_bytes += n_bytes;
  }

 private:
  Meter* meter_ = nullptr;  // null for values created before the rendering
  size_t charged_bytes_ = 0;
  int nesting_ = 1;
};

enum class Kind : uint8_t { kMissing, kUndefined, kNone, kBool, kInt, kBigInt, kFloat, kText, kList, kTuple, kDict, kObject };

// Valid UTF-8 text. Python counts and slices it by code points.
class Text final : public Cell {
 public:
  explicit Text(std::string utf8, bool is_markup = false);
  const std::string utf8;
  const size_t n_points;
  const bool is_markup;  // from `safe` and `escape`; text added to it is escaped
  bool is_ascii() const { return n_points == utf8.size(); }
};

class Items final : public Cell {
 public:
  explicit Items(std::vector<Value> values_in);
  const std::vector<Value> values;
};

class BigIntCell final : public Cell {
 public:
  explicit BigIntCell(BigInt value_in) : value(std::move(value_in)) {}
  const BigInt value;
};

// The reason why a value is undefined, for the error when it is used.
class Absence final : public Cell {
 public:
  explicit Absence(std::string why_in) : why(std::move(why_in)) {}
  const std::string why;
};

// A Python value. Copying is cheap; copies share their contents.
class Value {
 public:
  Value() = default;  // missing: a variable that was never set; undefined in templates
  static Value none() { return Value(Kind::kNone); }
  static Value boolean(bool value) { return Value(Kind::kBool, value ? 1 : 0); }
  static Value integer(int64_t value) { return Value(Kind::kInt, value); }
  static Value real(double value);
  static Value big(BigInt value);  // an integer() if it fits
  static Value undefined(std::string why) { return Value(Kind::kUndefined, std::make_shared<Absence>(std::move(why))); }
  // Not counted: for constants and input variables of a template.
  static Value text(std::string utf8, bool is_markup = false) {
    return Value(Kind::kText, std::make_shared<Text>(std::move(utf8), is_markup));
  }
  static Value list(std::vector<Value> values);
  static Value tuple(std::vector<Value> values);
  static Value dict(std::shared_ptr<Dict> dict);
  static Value object(std::shared_ptr<Object> object);

  Value(Kind kind, std::shared_ptr<Cell> cell) : kind_(kind), cell_(std::move(cell)) {}

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ <= Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_text() const { return kind_ == Kind::kText; }
  bool is_whole() const { return kind_ == Kind::kBool || kind_ == Kind::kInt || kind_ == Kind::kBigInt; }
  bool is_number() const { return is_whole() || kind_ == Kind::kFloat; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }

  bool as_bool() const { return whole_ != 0; }
  int64_t as_int() const { return whole_; }  // of a kBool or kInt
  double as_float() const { return real_; }
  BigInt as_big() const;     // of any is_whole()
  double to_double() const;  // of any is_number()
  const std::string& as_text() const { return text_cell().utf8; }
  const Text& text_cell() const { return static_cast<const Text&>(*cell_); }
  const std::vector<Value>& as_items() const { return items_cell().values; }
  const Items& items_cell() const { return static_cast<const Items&>(*cell_); }
  const Dict& as_dict() const;
  Object& as_object() const;
  const std::string& why_undefined() const;

  const std::shared_ptr<Cell>& cell() const { return cell_; }
  int nesting() const { return cell_ ? cell_->nesting() : 0; }

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  Value(Kind kind, int64_t whole) : kind_(kind), whole_(whole) {}

  Kind kind_ = Kind::kMissing;
  union {
    int64_t whole_ = 0;
    double real_;
  };
  std::shared_ptr<Cell> cell_;
};

// Python's name of the type: "str", "list", "NoneType".
std::string_view type_name(const Value& value);

// 1 + the maximum nesting of `values`.
int nesting_around(const std::vector<Value>& values);

}  // namespace kvik::text::jinja

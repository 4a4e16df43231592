#include "text/template/dict.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "text/template/compare.h"
#include "text/template/fault.h"

namespace kvik::text::jinja {
namespace {

size_t hash_real(double value) {
  // A float with an integer value equals that int and must have the same hash.
  if (std::trunc(value) == value && std::fabs(value) < 9.0e18) return std::hash<int64_t>()(static_cast<int64_t>(value));
  return std::hash<double>()(value);
}

std::optional<size_t> hash_tuple(const std::vector<Value>& values) {
  size_t sum = values.size();
  for (const Value& value : values) {
    const std::optional<size_t> hash = hash_of(value);
    if (!hash) return std::nullopt;
    sum = sum * 1000003 + *hash;
  }
  return sum;
}

}  // namespace

std::optional<size_t> hash_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined: return 1;
    case Kind::kNone: return 2;
    case Kind::kBool:
    case Kind::kInt: return std::hash<int64_t>()(value.as_int());
    case Kind::kBigInt: return hash_real(value.to_double());
    case Kind::kFloat: return hash_real(value.as_float());
    case Kind::kText: return std::hash<std::string>()(value.as_text());
    case Kind::kTuple: return hash_tuple(value.as_items());
    case Kind::kList:
    case Kind::kDict: return std::nullopt;
    case Kind::kObject: return std::hash<const void*>()(value.cell().get());
  }
  return std::nullopt;
}

std::optional<size_t> Dict::position(const Value& key) const {
  if (entries_.size() <= kFewEntries) {
    for (size_t i = 0; i < entries_.size(); ++i)
      if (equal(entries_[i].key, key)) return i;
    return std::nullopt;
  }
  const std::optional<size_t> hash = hash_of(key);
  if (!hash) return std::nullopt;
  const auto [begin, end] = positions_.equal_range(*hash);
  for (auto it = begin; it != end; ++it)
    if (equal(entries_[it->second].key, key)) return it->second;
  return std::nullopt;
}

const Value* Dict::find(const Value& key) const {
  const std::optional<size_t> at = position(key);
  return at ? &entries_[*at].value : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  if (entries_.size() > kFewEntries) return find(Value::text(std::string(key)));
  for (const Entry& entry : entries_)
    if (entry.key.is_text() && entry.key.as_text() == key) return &entry.value;
  return nullptr;
}

void Dict::set(Value key, Value value) {
  const std::optional<size_t> hash = hash_of(key);
  if (!hash) fail("a {} cannot be the key of a dict: unhashable type", type_name(key));
  set_nesting(std::max({nesting(), key.nesting() + 1, value.nesting() + 1}));
  if (const std::optional<size_t> at = position(key)) {
    entries_[*at].value = std::move(value);
    return;
  }
  entries_.push_back({std::move(key), std::move(value)});
  if (entries_.size() <= kFewEntries) return;
  if (positions_.empty())
    for (size_t i = 0; i + 1 < entries_.size(); ++i) positions_.emplace(*hash_of(entries_[i].key), i);
  positions_.emplace(*hash, entries_.size() - 1);
}

}  // namespace kvik::text::jinja

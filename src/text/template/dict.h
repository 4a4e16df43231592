#pragma once

#include <unordered_map>
#include <vector>

#include "text/template/value.h"

namespace kvik::text::jinja {

// Keys in insertion order, without duplicates (1, 1.0 and true are equal).
class Dict final : public Cell {
 public:
  struct Entry {
    Value key;
    Value value;
  };

  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  // Null if absent. Unhashable keys are absent.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  // Replaces the value of an equal key, which keeps its position. Throws for an unhashable key.
  void set(Value key, Value value);
  void set(std::string_view key, Value value) { set(Value::text(std::string(key)), std::move(value)); }

 private:
  static constexpr size_t kFewEntries = 8;  // linear search

  std::optional<size_t> position(const Value& key) const;

  std::vector<Entry> entries_;
  std::unordered_multimap<size_t, size_t> positions_;  // by hash; empty while there are few entries
};

// Nothing for values that cannot be keys: lists, dicts and values that contain them.
std::optional<size_t> hash_of(const Value& value);

}  // namespace kvik::text::jinja

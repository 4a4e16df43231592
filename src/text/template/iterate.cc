#include "text/template/runtime.h"
#include "text/template/unicode.h"

namespace kvik::text::jinja {
namespace {

class ItemsIterator final : public Iterator {
 public:
  explicit ItemsIterator(Value items) : items_(std::move(items)) {}
  std::optional<Value> next() override {
    const std::vector<Value>& values = items_.as_items();
    return at_ < values.size() ? std::optional(values[at_++]) : std::nullopt;
  }

 private:
  Value items_;
  size_t at_ = 0;
};

class BackwardItemsIterator final : public Iterator {
 public:
  explicit BackwardItemsIterator(Value items) : items_(std::move(items)), left_(items_.as_items().size()) {}
  std::optional<Value> next() override { return left_ > 0 ? std::optional(items_.as_items()[--left_]) : std::nullopt; }

 private:
  Value items_;
  size_t left_;
};

class KeyIterator final : public Iterator {
 public:
  explicit KeyIterator(Value dict) : dict_(std::move(dict)) {}
  std::optional<Value> next() override {
    const std::vector<Dict::Entry>& entries = dict_.as_dict().entries();
    return at_ < entries.size() ? std::optional(entries[at_++].key) : std::nullopt;
  }

 private:
  Value dict_;
  size_t at_ = 0;
};

class BackwardKeyIterator final : public Iterator {
 public:
  explicit BackwardKeyIterator(Value dict) : dict_(std::move(dict)), left_(dict_.as_dict().size()) {}
  std::optional<Value> next() override { return left_ > 0 ? std::optional(dict_.as_dict().entries()[--left_].key) : std::nullopt; }

 private:
  Value dict_;
  size_t left_;
};

class PointIterator final : public Iterator {
 public:
  PointIterator(Runtime& runtime, Value text) : runtime_(runtime), text_(std::move(text)) {}
  std::optional<Value> next() override {
    const std::string& utf8 = text_.as_text();
    if (at_ >= utf8.size()) return std::nullopt;
    const size_t start = at_;
    next_point(utf8, at_);
    return runtime_.text(utf8.substr(start, at_ - start));
  }

 private:
  Runtime& runtime_;
  Value text_;
  size_t at_ = 0;
};

class BackwardPointIterator final : public Iterator {
 public:
  BackwardPointIterator(Runtime& runtime, Value text) : runtime_(runtime), text_(std::move(text)), at_(text_.as_text().size()) {}
  std::optional<Value> next() override {
    if (at_ == 0) return std::nullopt;
    const size_t end = at_;
    previous_point(text_.as_text(), at_);
    return runtime_.text(text_.as_text().substr(at_, end - at_));
  }

 private:
  Runtime& runtime_;
  Value text_;
  size_t at_;
};

class NoIterator final : public Iterator {
 public:
  std::optional<Value> next() override { return std::nullopt; }
};

}  // namespace

std::unique_ptr<Iterator> try_iterate(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined: return std::make_unique<NoIterator>();
    case Kind::kText: return std::make_unique<PointIterator>(runtime, value);
    case Kind::kList:
    case Kind::kTuple: return std::make_unique<ItemsIterator>(value);
    case Kind::kDict: return std::make_unique<KeyIterator>(value);
    case Kind::kObject: return value.as_object().iterate(runtime);
    default: return nullptr;
  }
}

std::unique_ptr<Iterator> iterate(Runtime& runtime, const Value& value) {
  std::unique_ptr<Iterator> it = try_iterate(runtime, value);
  if (it == nullptr) fail("'{}' object is not iterable", type_name(value));
  return it;
}

std::unique_ptr<Iterator> iterate_backwards(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined: return std::make_unique<NoIterator>();
    case Kind::kText: return std::make_unique<BackwardPointIterator>(runtime, value);
    case Kind::kList:
    case Kind::kTuple: return std::make_unique<BackwardItemsIterator>(value);
    case Kind::kDict: return std::make_unique<BackwardKeyIterator>(value);
    case Kind::kObject: return value.as_object().iterate_backwards(runtime);
    default: return nullptr;
  }
}

std::vector<Value> collect(Runtime& runtime, const Value& iterable) {
  const std::unique_ptr<Iterator> it = iterate(runtime, iterable);
  std::vector<Value> values;
  while (std::optional<Value> value = it->next()) {
    runtime.step();
    if (values.size() == values.capacity()) runtime.check_room((2 * values.size() + 8) * sizeof(Value));
    values.push_back(std::move(*value));
  }
  return values;
}

}  // namespace kvik::text::jinja

#include "text/template/compare.h"
#include "text/template/filter_tables.h"

namespace kvik::text::jinja {
namespace {

// Iterates over `value` lazily, like a Python generator.
class LazyIterator : public Iterator {
 public:
  LazyIterator(Runtime& runtime, Value value, Args args) : runtime_(runtime), args_(std::move(args)), value_(std::move(value)) {}

 protected:
  std::optional<Value> next_source() {
    if (source_ == nullptr) source_ = iterate(runtime_, value_);
    runtime_.step();
    return source_->next();
  }
  const Value& value() const { return value_; }

  Runtime& runtime_;
  const Args args_;

 private:
  Value value_;
  std::unique_ptr<Iterator> source_;
};

class MapIterator final : public LazyIterator {
 public:
  using LazyIterator::LazyIterator;
  std::optional<Value> next() override {
    if (!is_ready_) {
      if (!truth(runtime_, value())) return std::nullopt;
      prepare();
    }
    std::optional<Value> item = next_source();
    if (!item) return std::nullopt;
    return filter_ != nullptr ? filter_(runtime_, *item, rest_) : path_->of(runtime_, std::move(*item), otherwise_);
  }

 private:
  void prepare() {
    is_ready_ = true;
    if (args_.list.empty() && args_.find("attribute") != nullptr) {
      for (const auto& [name, value] : args_.named)
        if (name != "attribute" && name != "default") fail("Unexpected keyword argument '{}'", name);
      path_.emplace(args_.find("attribute"));
      otherwise_ = args_.find("default");
      return;
    }
    if (args_.list.empty()) fail("map requires a filter argument");
    const std::string& name = to_text(args_.list.front(), "map");
    filter_ = find_filter(name);
    if (filter_ == nullptr) fail("there is no filter named '{}'", name);
    rest_.list.assign(args_.list.begin() + 1, args_.list.end());
    rest_.named = args_.named;
  }

  bool is_ready_ = false;
  FilterBody filter_ = nullptr;
  Args rest_;
  std::optional<AttributePath> path_;
  const Value* otherwise_ = nullptr;
};

struct Selection {
  bool keeps = true;  // keep items that pass the test, or those that do not
  bool by_attribute = false;
};

class SelectIterator final : public LazyIterator {
 public:
  SelectIterator(Runtime& runtime, Value value, Args args, Selection selection)
      : LazyIterator(runtime, std::move(value), std::move(args)), selection_(selection) {}

  std::optional<Value> next() override {
    if (!is_ready_) {
      if (!truth(runtime_, value())) return std::nullopt;
      prepare();
    }
    while (std::optional<Value> item = next_source()) {
      const Value subject = path_->of(runtime_, *item);
      const bool passes = test_ != nullptr ? test_(runtime_, subject, rest_) : truth(runtime_, subject);
      if (passes == selection_.keeps) return item;
    }
    return std::nullopt;
  }

 private:
  void prepare() {
    is_ready_ = true;
    size_t at = 0;
    if (selection_.by_attribute && args_.list.empty()) fail("Missing parameter for attribute name");
    path_.emplace(selection_.by_attribute ? &args_.list[at++] : nullptr);
    if (at == args_.list.size()) return;
    const std::string& name = to_text(args_.list[at], "the name of a test");
    test_ = find_test(name);
    if (test_ == nullptr) fail("there is no test named '{}'", name);
    rest_.list.assign(args_.list.begin() + static_cast<ptrdiff_t>(at) + 1, args_.list.end());
    rest_.named = args_.named;
  }

  Selection selection_;
  bool is_ready_ = false;
  std::optional<AttributePath> path_;
  TestBody test_ = nullptr;
  Args rest_;
};

class UniqueIterator final : public LazyIterator {
 public:
  using LazyIterator::LazyIterator;
  std::optional<Value> next() override {
    const Parameters given("unique", args_, {"case_sensitive", "attribute"});
    const bool keeps_case = given.truth(runtime_, 0, false);
    const AttributePath path(given[1]);
    while (std::optional<Value> item = next_source()) {
      const Value part = path.of(runtime_, *item);
      const Value key = keeps_case ? part : without_case(runtime_, part);
      if (!hash_of(key)) fail("unhashable type: '{}'", type_name(key));
      if (seen_.find(key) != nullptr) continue;
      runtime_.check_room(seen_.size() * 3 * sizeof(Dict::Entry));
      seen_.set(key, Value::none());
      return item;
    }
    return std::nullopt;
  }

 private:
  Dict seen_;
};

class PairIterator final : public LazyIterator {
 public:
  using LazyIterator::LazyIterator;
  std::optional<Value> next() override {
    if (value().is_undefined()) return std::nullopt;
    if (!value().is(Kind::kDict)) fail("Can only get item pairs from a mapping.");
    const std::vector<Dict::Entry>& entries = value().as_dict().entries();
    if (at_ == entries.size()) return std::nullopt;
    const Dict::Entry& entry = entries[at_++];
    return runtime_.tuple({entry.key, entry.value});
  }

 private:
  size_t at_ = 0;
};

template <typename It>
Value lazily(Runtime& runtime, const Value& value, const Args& args) {
  return runtime.generator(std::make_unique<It>(runtime, value, args), value);
}

template <bool kKeeps, bool kByAttribute>
Value select(Runtime& runtime, const Value& value, const Args& args) {
  return runtime.generator(std::make_unique<SelectIterator>(runtime, value, args, Selection{kKeeps, kByAttribute}), value);
}

constexpr Named<FilterBody> kSelectionFilters[] = {
    {"map", lazily<MapIterator>},       {"select", select<true, false>},     {"reject", select<false, false>},
    {"selectattr", select<true, true>}, {"rejectattr", select<false, true>}, {"unique", lazily<UniqueIterator>},
    {"items", lazily<PairIterator>},
};

}  // namespace

FilterBody find_selection_filter(std::string_view name) { return find_in_table(kSelectionFilters, name); }

}  // namespace kvik::text::jinja

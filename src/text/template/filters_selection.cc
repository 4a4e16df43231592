#include "text/template/compare.h"
#include "text/template/filter_tables.h"

namespace kvik::text::jinja {
namespace {

// Starts to walk `value` when the first item is asked for, as a generator does.
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
  bool keeps = true;  // what passes the test, or what does not
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

class BatchIterator final : public LazyIterator {
 public:
  using LazyIterator::LazyIterator;
  std::optional<Value> next() override {
    const Parameters given("batch", args_, {"linecount", "fill_with"}, 1);
    const int64_t size = to_index(given.required(0), "batch");
    std::vector<Value> items;
    if (pending_) items.push_back(std::move(*std::exchange(pending_, std::nullopt)));
    while (std::optional<Value> item = next_source()) {
      if (static_cast<int64_t>(items.size()) == size) {
        pending_ = std::move(item);
        return runtime_.list(std::move(items));
      }
      items.push_back(std::move(*item));
    }
    if (items.empty()) return std::nullopt;
    if (given[1] != nullptr && !given[1]->is_none() && static_cast<int64_t>(items.size()) < size) {
      if (static_cast<size_t>(size) > runtime_.limits().memory_bytes) runtime_.check_room(runtime_.limits().memory_bytes + 1);
      runtime_.check_room(static_cast<size_t>(size) * sizeof(Value));
      items.resize(static_cast<size_t>(size), *given[1]);
    }
    return runtime_.list(std::move(items));
  }

 private:
  std::optional<Value> pending_;
};

class SliceIterator final : public LazyIterator {
 public:
  using LazyIterator::LazyIterator;
  std::optional<Value> next() override {
    const Parameters given("slice", args_, {"slices", "fill_with"}, 1);
    const int64_t n_slices = to_index(given.required(0), "slice");
    if (!items_) items_ = collect(runtime_, value());
    if (n_slices == 0) fail("division by zero");
    if (at_ >= n_slices) return std::nullopt;
    runtime_.step();
    const auto length = static_cast<int64_t>(items_->size());
    const int64_t n_each = length / n_slices, n_longer = length % n_slices;
    const int64_t start = at_ * n_each + std::min(at_, n_longer);
    const int64_t end = start + n_each + (at_ < n_longer ? 1 : 0);
    std::vector<Value> part(items_->begin() + start, items_->begin() + end);
    if (given[1] != nullptr && !given[1]->is_none() && at_ >= n_longer) part.push_back(*given[1]);
    ++at_;
    return runtime_.list(std::move(part));
  }

 private:
  std::optional<std::vector<Value>> items_;
  int64_t at_ = 0;
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
    {"batch", lazily<BatchIterator>},   {"slice", lazily<SliceIterator>},    {"items", lazily<PairIterator>},
};

}  // namespace

FilterBody find_selection_filter(std::string_view name) { return find_in_table(kSelectionFilters, name); }

}  // namespace kvik::text::jinja

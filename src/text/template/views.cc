#include "text/template/views.h"

#include "text/template/print.h"

namespace kvik::text::jinja {
namespace {

class ViewIterator final : public Iterator {
 public:
  ViewIterator(Runtime& runtime, Value dict, DictView::Part part, bool backwards)
      : runtime_(runtime), dict_(std::move(dict)), part_(part), backwards_(backwards) {}

  std::optional<Value> next() override {
    const std::vector<Dict::Entry>& entries = dict_.as_dict().entries();
    if (done_ >= entries.size()) return std::nullopt;
    const Dict::Entry& entry = entries[backwards_ ? entries.size() - 1 - done_ : done_];
    ++done_;
    if (part_ == DictView::Part::kKeys) return entry.key;
    if (part_ == DictView::Part::kValues) return entry.value;
    return runtime_.tuple({entry.key, entry.value});
  }

 private:
  Runtime& runtime_;
  Value dict_;
  DictView::Part part_;
  bool backwards_;
  size_t done_ = 0;
};

class RangeIterator final : public Iterator {
 public:
  RangeIterator(int64_t start, int64_t step, int64_t count) : at_(start), step_(step), left_(count) {}
  std::optional<Value> next() override {
    if (left_ == 0) return std::nullopt;
    const Value value = Value::integer(at_);
    if (--left_ > 0) at_ += step_;
    return value;
  }

 private:
  int64_t at_, step_, left_;
};

}  // namespace

std::string_view DictView::type_name() const {
  constexpr std::string_view kNames[] = {"dict_keys", "dict_values", "dict_items"};
  return kNames[static_cast<size_t>(part_)];
}

std::string DictView::repr(Runtime& runtime) {
  std::vector<Value> values;
  ViewIterator it(runtime, dict_, part_, false);
  while (std::optional<Value> value = it.next()) values.push_back(std::move(*value));
  return fmt::format("{}({})", type_name(), represented(runtime, runtime.list(std::move(values))));
}

std::unique_ptr<Iterator> DictView::iterate(Runtime& runtime) { return std::make_unique<ViewIterator>(runtime, dict_, part_, false); }
std::unique_ptr<Iterator> DictView::iterate_backwards(Runtime& runtime) {
  return std::make_unique<ViewIterator>(runtime, dict_, part_, true);
}

std::string Range::repr(Runtime&) {
  return step_ == 1 ? fmt::format("range({}, {})", start_, stop_) : fmt::format("range({}, {}, {})", start_, stop_, step_);
}

bool Range::equals(const Object& other) const {
  const auto* range = dynamic_cast<const Range*>(&other);
  if (range == nullptr || count_ != range->count_) return false;
  return count_ == 0 || (start_ == range->start_ && (count_ == 1 || step_ == range->step_));
}

std::optional<Value> Range::item(Runtime&, const Value& key) {
  if (!key.is_whole() || key.is(Kind::kBigInt)) return std::nullopt;
  const int64_t index = key.as_int() < 0 ? key.as_int() + count_ : key.as_int();
  if (index < 0 || index >= count_) return std::nullopt;
  return Value::integer(start_ + index * step_);
}

std::optional<Value> Range::attribute(Runtime&, const Value&, std::string_view name) {
  if (name == "start") return Value::integer(start_);
  if (name == "stop") return Value::integer(stop_);
  if (name == "step") return Value::integer(step_);
  return std::nullopt;
}

std::unique_ptr<Iterator> Range::iterate(Runtime&) { return std::make_unique<RangeIterator>(start_, step_, count_); }

std::unique_ptr<Iterator> Range::iterate_backwards(Runtime&) {
  return std::make_unique<RangeIterator>(count_ > 0 ? start_ + (count_ - 1) * step_ : start_, -step_, count_);
}

}  // namespace kvik::text::jinja

// Filters that divide a sequence into lists.
#include <algorithm>
#include <utility>

#include "text/template/compare.h"
#include "text/template/filter_tables.h"
#include "text/template/print.h"

namespace kvik::text::jinja {
namespace {

// What `groupby` returns for each group: a pair whose parts also have names.
class Group final : public Object {
 public:
  explicit Group(Value pair) : pair_(std::move(pair)) { set_nesting(pair_.nesting() + 1); }

  std::string_view type_name() const override { return "_GroupTuple"; }
  std::string repr(Runtime& runtime) override { return represented(runtime, pair_); }
  std::optional<int64_t> length(Runtime&) override { return 2; }
  bool has_items() const override { return true; }
  std::unique_ptr<Iterator> iterate(Runtime& runtime) override { return jinja::iterate(runtime, pair_); }
  std::unique_ptr<Iterator> iterate_backwards(Runtime& runtime) override { return jinja::iterate_backwards(runtime, pair_); }

  std::optional<Value> attribute(Runtime&, const Value&, std::string_view name) override {
    if (name != "grouper" && name != "list") return std::nullopt;
    return pair_.as_items()[name == "list" ? 1 : 0];
  }
  std::optional<Value> item(Runtime&, const Value& key) override {
    if (!key.is(Kind::kInt) || key.as_int() < -2 || key.as_int() > 1) return std::nullopt;
    return pair_.as_items()[static_cast<size_t>(key.as_int() & 1)];
  }

 private:
  const Value pair_;
};

struct GroupItem {
  Value key, value;
};

Value group_by(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters given("groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  const AttributePath path(given[0]);
  const bool keeps_case = given.truth(runtime, 2, false);
  std::vector<GroupItem> keyed;
  for (Value& item : collect(runtime, value)) {
    const Value part = path.of(runtime, item, given[1]);
    keyed.push_back({keeps_case ? part : without_case(runtime, part), std::move(item)});
  }
  if (keyed.size() > 1) runtime.check_room(keyed.size() * sizeof(GroupItem));
  std::stable_sort(keyed.begin(), keyed.end(),
                   [&](const GroupItem& a, const GroupItem& b) { return order(a.key, b.key, "<", runtime.steps_left()) == Order::kLess; });
  std::vector<Value> groups;
  for (size_t begin = 0, end = 0; begin < keyed.size(); begin = end) {
    std::vector<Value> members;
    for (; end < keyed.size() && equal(keyed[begin].key, keyed[end].key, runtime.steps_left()); ++end) members.push_back(keyed[end].value);
    if (members.empty()) members.push_back(keyed[end++].value);  // NaN differs from itself
    const Value name = path.of(runtime, members.front(), given[1]);
    groups.push_back(runtime.object(std::make_shared<Group>(runtime.tuple({name, runtime.list(std::move(members))}))));
  }
  return runtime.list(std::move(groups));
}

Value in_batches(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters given("batch", args, {"linecount", "fill_with"}, 1);
  const int64_t width = to_index(given.required(0), "batch");
  std::vector<Value> rows, row;
  for (Value& item : collect(runtime, value)) {
    if (static_cast<int64_t>(row.size()) == width) rows.push_back(runtime.list(std::exchange(row, {})));
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    const auto n_missing = static_cast<size_t>(std::max<int64_t>(width - static_cast<int64_t>(row.size()), 0));
    if (given[1] != nullptr && !given[1]->is_none() && n_missing > 0) {
      runtime.check_room(n_missing * sizeof(Value));
      row.insert(row.end(), n_missing, *given[1]);
    }
    rows.push_back(runtime.list(std::move(row)));
  }
  const Value all = runtime.list(std::move(rows));
  return runtime.generator(iterate(runtime, all), all);
}

Value in_slices(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters given("slice", args, {"slices", "fill_with"}, 1);
  const int64_t n_slices = to_index(given.required(0), "slice");
  const std::vector<Value> items = collect(runtime, value);
  if (n_slices == 0) fail("integer division or modulo by zero");
  const auto n_items = static_cast<int64_t>(items.size());
  std::vector<Value> rows;
  int64_t begin = 0;
  for (int64_t i = 0; i < n_slices; ++i) {
    runtime.step();
    const bool is_longer = i < n_items % n_slices;
    const int64_t end = begin + n_items / n_slices + (is_longer ? 1 : 0);
    std::vector<Value> row(items.begin() + begin, items.begin() + end);
    if (given[1] != nullptr && !given[1]->is_none() && !is_longer) row.push_back(*given[1]);
    rows.push_back(runtime.list(std::move(row)));
    begin = end;
  }
  const Value all = runtime.list(std::move(rows));
  return runtime.generator(iterate(runtime, all), all);
}

constexpr Named<FilterBody> kGroupFilters[] = {{"groupby", group_by}, {"batch", in_batches}, {"slice", in_slices}};

}  // namespace

FilterBody find_group_filter(std::string_view name) { return find_in_table(kGroupFilters, name); }

}  // namespace kvik::text::jinja

#include "text/template/object.h"

#include <algorithm>

#include "text/template/fault.h"

namespace kvik::text::jinja {
namespace {

class SharedIterator final : public Iterator {
 public:
  explicit SharedIterator(std::shared_ptr<Iterator> source) : source_(std::move(source)) {}
  std::optional<Value> next() override { return source_->next(); }

 private:
  std::shared_ptr<Iterator> source_;
};

}  // namespace

const Value* Args::find(std::string_view name) const {
  const auto it = std::find_if(named.begin(), named.end(), [&](const auto& pair) { return pair.first == name; });
  return it == named.end() ? nullptr : &it->second;
}

std::optional<Value> Args::take(std::string_view name) {
  const auto it = std::find_if(named.begin(), named.end(), [&](const auto& pair) { return pair.first == name; });
  if (it == named.end()) return std::nullopt;
  Value value = std::move(it->second);
  named.erase(it);
  return value;
}

std::string Object::repr(Runtime&) { return fmt::format("<{} object>", type_name()); }

Value Object::call(Runtime&, Args) { fail("'{}' object is not callable", type_name()); }

std::unique_ptr<Iterator> Generator::iterate(Runtime&) { return std::make_unique<SharedIterator>(source_); }

}  // namespace kvik::text::jinja

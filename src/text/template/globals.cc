#include "text/template/filters.h"
#include "text/template/namespace.h"
#include "text/template/print.h"
#include "text/template/views.h"

namespace kvik::text::jinja {
namespace {

Value make_range(Runtime& runtime, const Value&, const Args& args) {
  if (!args.named.empty()) fail("range() takes no keyword arguments");
  if (args.list.empty() || args.list.size() > 3) fail("range expected 1 to 3 arguments, got {}", args.list.size());
  const auto part = [&](size_t i) { return to_index(args.list[i], "range"); };
  const int64_t start = args.list.size() == 1 ? 0 : part(0);
  const int64_t stop = args.list.size() == 1 ? part(0) : part(1);
  const int64_t step = args.list.size() == 3 ? part(2) : 1;
  if (step == 0) fail("range() arg 3 must not be zero");
  const auto distance = step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  const auto stride = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  const __int128 count = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  if (count > kMaxRange)
    throw Fault(Code::kTooLarge, fmt::format("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kMaxRange));
  return runtime.object(std::make_shared<Range>(start, stop, step, static_cast<int64_t>(count)));
}

// dict(mapping_or_pairs, **named)
std::shared_ptr<Dict> make_plain_dict(Runtime& runtime, std::string_view function, const Args& args) {
  auto dict = std::make_shared<Dict>();
  if (args.list.size() > 1) fail("{} expected at most 1 argument, got {}", function, args.list.size());
  if (!args.list.empty() && args.list[0].is(Kind::kDict)) {
    for (const Dict::Entry& entry : args.list[0].as_dict().entries()) dict->set(entry.key, entry.value);
  } else if (!args.list.empty()) {
    const std::unique_ptr<Iterator> it = iterate(runtime, args.list[0]);
    while (const std::optional<Value> item = it->next()) {
      runtime.step();
      const std::vector<Value> pair = collect(runtime, *item);
      if (pair.size() != 2) fail("dictionary update sequence element has length {}; 2 is required", pair.size());
      dict->set(pair[0], pair[1]);
    }
  }
  for (const auto& [name, value] : args.named) dict->set(name, value);
  return dict;
}

Value make_dict(Runtime& runtime, const Value&, const Args& args) { return runtime.dict(make_plain_dict(runtime, "dict", args)); }

Value make_namespace(Runtime& runtime, const Value&, const Args& args) {
  Value value = Namespace::make(runtime);
  const std::shared_ptr<Dict> attributes = make_plain_dict(runtime, "namespace", args);
  for (const Dict::Entry& entry : attributes->entries())
    static_cast<Namespace&>(value.as_object()).set(runtime, to_text(entry.key, "an attribute of a namespace"), entry.value);
  return value;
}

Value raise_exception(Runtime& runtime, const Value&, const Args& args) {
  const Parameters given("raise_exception", args, {"message"}, 1);
  throw Fault(Code::kBadArgument, printed(runtime, given.required(0)), true);
}

// %f is specific to Python; the C library handles the rest, in the C locale.
std::string with_microseconds(std::string_view form, int microseconds) {
  std::string result;
  for (size_t i = 0; i < form.size(); ++i) {
    if (form[i] != '%' || i + 1 == form.size()) {
      result += form[i];
      continue;
    }
    const char letter = form[++i];
    if (letter == 'f')
      result += fmt::format("{:06}", microseconds);
    else if (letter != 'z' && letter != 'Z')  // a naive time has no zone
      result += {'%', letter};
  }
  return result;
}

Value strftime_now(Runtime& runtime, const Value&, const Args& args) {
  const Parameters given("strftime_now", args, {"format"}, 1);
  const std::string& wanted = to_text(given.required(0), "strftime_now");
  const Moment now = runtime.now();
  const std::string form = with_microseconds(wanted, now.microseconds) + " ";  // never empty, so that 0 only means "does not fit"
  for (size_t capacity = 256 + 16 * form.size();; capacity *= 2) {
    runtime.check_room(capacity);
    std::string text(capacity, '\0');
    const size_t size = std::strftime(text.data(), text.size(), form.c_str(), &now.local);
    if (size == 0) continue;
    text.resize(size - 1);
    return runtime.text(std::move(text));
  }
}

constexpr Named<MethodBody> kGlobals[] = {
    {"range", make_range},          {"dict", make_dict}, {"namespace", make_namespace}, {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
};

}  // namespace

std::optional<Value> find_global(Runtime& runtime, std::string_view name) {
  for (const auto& [known, body] : kGlobals)
    if (known == name) return runtime.function(name, body);
  return std::nullopt;
}

}  // namespace kvik::text::jinja

#pragma once

#include "text/template/runtime.h"

namespace kvik::text::jinja {

// object.name: the attribute, then the item. object[key]: the item, then the attribute. Undefined if there is neither.
Value get_attribute(Runtime& runtime, const Value& object, std::string_view name);
Value get_item(Runtime& runtime, const Value& object, const Value& key);
// Only the attribute, as the filter `attr` has it.
std::optional<Value> find_attribute(Runtime& runtime, const Value& object, std::string_view name);

struct SliceBounds {
  Value start, stop, step;  // none where left out
};
Value get_slice(Runtime& runtime, const Value& object, const SliceBounds& bounds);

// A slice of something `length` long: the first index, how many, and the distance between them.
struct SliceIndices {
  int64_t start = 0, count = 0, step = 1;
};
SliceIndices slice_indices(const SliceBounds& bounds, int64_t length);

}  // namespace kvik::text::jinja

#include "backend/native/graph/axes.h"

#include <algorithm>
#include <fmt/format.h>

namespace kvik::native {
namespace {

std::string name_of(const Factor& factor) {
  if (!factor.is_symbol()) return std::to_string(factor.size);
  switch (factor.symbol) {
    case Symbol::kBatch: return "batch";
    case Symbol::kNew: return "new";
    case Symbol::kPast: return "past";
    case Symbol::kTotal: return "total";
    case Symbol::kSource: return "source";
    case Symbol::kTotalAndSink: return "total+1";
    case Symbol::kUnknown: return "unknown";
    case Symbol::kSelection: return fmt::format("chosen{}", factor.selection);
  }
  return "?";
}

}  // namespace

Axis canonical(Axis axis) {
  Axis result;
  for (const Factor& factor : axis) {
    if (factor.size == 1) continue;
    const bool merges = !factor.is_symbol() && !result.empty() && !result.back().is_symbol();
    if (merges) {
      result.back().size *= factor.size;
    } else {
      result.push_back(factor);
    }
  }
  return result;
}

bool has_symbol(const Axis& axis) {
  return std::any_of(axis.begin(), axis.end(), [](const Factor& factor) { return factor.is_symbol(); });
}

bool holds(const Axis& axis, Symbol symbol) {
  return std::any_of(axis.begin(), axis.end(), [&](const Factor& factor) { return factor.is_symbol() && factor.symbol == symbol; });
}

bool holds(const Axes& axes, Symbol symbol) {
  return std::any_of(axes.begin(), axes.end(), [&](const Axis& axis) { return holds(axis, symbol); });
}

int64_t row_size(const Axis& axis) {
  if (holds(axis, Symbol::kSelection)) return -1;
  int64_t size = 1;
  for (const Factor& factor : axis) size *= factor.is_symbol() ? 1 : factor.size;
  return size;
}

Dims row_dims(const Axes& axes) {
  Dims dims;
  dims.reserve(axes.size());
  for (const Axis& axis : axes) dims.push_back(row_size(axis));
  return dims;
}

std::string to_string(const Axis& axis) {
  if (axis.empty()) return "1";
  std::string words;
  for (const Factor& factor : axis) words += (words.empty() ? "" : "*") + name_of(factor);
  return words;
}

std::string to_string(const Axes& axes) {
  std::string words;
  for (const Axis& axis : axes) words += (words.empty() ? "" : ", ") + to_string(axis);
  return "[" + words + "]";
}

int64_t Sizes::of(const Factor& factor) const {
  if (!factor.is_symbol()) return factor.size;
  switch (factor.symbol) {
    case Symbol::kBatch: return batch;
    case Symbol::kNew: return fresh;
    case Symbol::kPast: return buffer > 0 ? buffer : past;
    case Symbol::kTotal: return buffer > 0 ? buffer : total();
    case Symbol::kSource: return source;
    case Symbol::kTotalAndSink: return of(native::factor(Symbol::kTotal)) + 1;
    case Symbol::kUnknown: return unknown;
    case Symbol::kSelection: return selection + factor.selection;
  }
  return 0;
}

int64_t Sizes::of(const Axis& axis) const {
  int64_t size = 1;
  for (const Factor& factor : axis) size *= of(factor);
  return size;
}

Dims Sizes::of(const Axes& axes) const {
  Dims dims;
  dims.reserve(axes.size());
  for (const Axis& axis : axes) dims.push_back(of(axis));
  return dims;
}

}  // namespace kvik::native

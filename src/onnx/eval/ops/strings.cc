#include <algorithm>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/broadcast.h"
#include "onnx/eval/ops/common.h"

namespace kvik::onnx {
namespace {

Tensors string_concat(const KernelCall& call) {
  const Tensor& a = call.input(0);
  const Tensor& b = call.input(1);
  const Dims dims = broadcast(a.dims(), b.dims());
  Tensor result = new_tensor(DType::kString, dims);
  const auto left = a.data<std::string>();
  const auto right = b.data<std::string>();
  const auto to = result.mutable_data<std::string>();
  size_t i = 0;
  for (Walk<2> walk(dims, {broadcast_strides(a.dims(), dims), broadcast_strides(b.dims(), dims)}); walk.more(); walk.next()) {
    to[i++] = left[static_cast<size_t>(walk.offset(0))] + right[static_cast<size_t>(walk.offset(1))];
  }
  return {result};
}

// At most `most` cuts, from the left.
std::vector<std::string> split_at_text(std::string_view text, std::string_view delimiter, int64_t most) {
  std::vector<std::string> parts;
  for (size_t cut = text.find(delimiter); cut != std::string_view::npos && most > 0; cut = text.find(delimiter), --most) {
    parts.emplace_back(text.substr(0, cut));
    text.remove_prefix(cut + delimiter.size());
  }
  parts.emplace_back(text);
  return parts;
}

// Without a delimiter, runs of white space separate and do not count at the ends.
std::vector<std::string> split_at_spaces(std::string_view text, int64_t most) {
  constexpr std::string_view kSpaces = " \t\n\r\v\f";
  std::vector<std::string> parts;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
    if (text.empty()) return parts;
    if (most-- <= 0) break;
    const size_t end = std::min(text.find_first_of(kSpaces), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  parts.emplace_back(text.substr(0, text.find_last_not_of(kSpaces) + 1));
  return parts;
}

Tensors string_split(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const std::string_view delimiter = call.node.string_or("delimiter", "");
  const int64_t most = call.node.int_or("maxsplit", INT64_MAX);
  std::vector<std::vector<std::string>> all;
  size_t widest = 0;
  for (const std::string& text : x.data<std::string>()) {
    all.push_back(delimiter.empty() ? split_at_spaces(text, most) : split_at_text(text, delimiter, most));
    widest = std::max(widest, all.back().size());
  }
  Dims dims = x.dims();
  dims.push_back(static_cast<int64_t>(widest));
  Tensor parts = new_tensor(DType::kString, dims);
  Tensor counts = new_tensor(DType::kI64, x.dims());
  for (size_t i = 0; i < all.size(); ++i) {
    std::copy(all[i].begin(), all[i].end(), parts.mutable_data<std::string>().begin() + static_cast<int64_t>(i * widest));
    counts.mutable_data<int64_t>()[i] = static_cast<int64_t>(all[i].size());
  }
  return {parts, counts};
}

// An optional that holds a tensor is that tensor here; one that holds nothing is an omitted input.
Tensors optional_has_element(const KernelCall& call) { return {Tensor::scalar(call.has(0))}; }
Tensors optional_get_element(const KernelCall& call) { return {call.input(0)}; }

}  // namespace

void add_strings(KernelTable& table) {
  table.add("OptionalGetElement", optional_get_element);
  table.add("OptionalHasElement", optional_has_element);
  table.add("StringConcat", string_concat);
  table.add("StringSplit", string_split);
}

}  // namespace kvik::onnx

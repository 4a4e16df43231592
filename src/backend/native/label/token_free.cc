#include "backend/native/label/token_free.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <unordered_set>

namespace kvik::native {
namespace {

using onnx::ValueId;

constexpr int64_t kTokensAtOnce = 4096;
constexpr size_t kMostUnsupported = 64;  // more than these are not exceptions

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.dims() == b.dims() && std::memcmp(a.bytes().data(), b.bytes().data(), a.size_bytes()) == 0;
}

constexpr size_t kMostAncestors = 256;
constexpr int64_t kLargestTable = int64_t{1} << 16;  // elements of constants that may be read: an embedding lookup does depend on tokens

bool is_row_of_tokens(const Label& label) {
  return label.kind == Label::Kind::kRow && label.on_tokens && !label.on_past && !label.on_source && !label.is_score;
}

// Whether a value is computed from tokens alone, and cheap enough to evaluate.
bool comes_from_tokens_only(const Labels& labels, ValueId value) {
  std::vector<ValueId> stack = {value};
  std::unordered_set<ValueId> seen;
  while (!stack.empty()) {
    const ValueId id = stack.back();
    stack.pop_back();
    if (!seen.insert(id).second) continue;
    if (seen.size() > kMostAncestors) return false;
    const onnx::NodeId producer = labels.flat->graph.value(id).producer;
    if (producer == onnx::kNoNode) continue;
    for (const ValueId input : labels.flat->graph.nodes[static_cast<size_t>(producer)].inputs) {
      if (input == onnx::kNoValue) continue;
      const Label& label = labels[input];
      if (label.kind == Label::Kind::kRow && !is_row_of_tokens(label)) return false;
      if (label.kind == Label::Kind::kRow) stack.push_back(input);
      if (label.kind == Label::Kind::kConstant && checked_elements(label.dims).value_or(kLargestTable) >= kLargestTable) return false;
    }
  }
  return true;
}

// Evaluates each token by itself; returns the tokens whose result differs from the majority.
Expected<std::vector<TokenId>> exceptions(GraphLabeler& labeler, ValueId value, int64_t vocab) {
  if (labeler.labels().one_sequence) return std::vector<TokenId>(kMostUnsupported + 1);  // they cannot be evaluated in one batch
  std::map<std::string, std::vector<TokenId>> tokens_by_result;
  for (int64_t first = 0; first < vocab; first += kTokensAtOnce) {
    const int64_t count = std::min(kTokensAtOnce, vocab - first);
    Tensor tokens(DType::kI64, {count, 1});
    for (int64_t i = 0; i < count; ++i) tokens.mutable_data<int64_t>()[static_cast<size_t>(i)] = first + i;
    Probe probe(labeler.labels(), labeler.constants(), Sizes{.batch = count, .fresh = 1, .past = labeler.flat().has_past ? 3 : 0});
    KVIK_TRY(const Tensor result, probe.get_with_tokens(value, tokens));
    if (result.rank() == 0 || result.dim(0) != count) return std::vector<TokenId>(kMostUnsupported + 1);
    const size_t width = result.size_bytes() / static_cast<size_t>(count);
    for (int64_t i = 0; i < count; ++i) {
      const auto* bytes = reinterpret_cast<const char*>(result.bytes().data()) + static_cast<size_t>(i) * width;
      tokens_by_result[std::string(bytes, width)].push_back(static_cast<TokenId>(first + i));
      if (tokens_by_result.size() > kMostUnsupported) return std::vector<TokenId>(kMostUnsupported + 1);
    }
  }
  const auto usual = std::max_element(tokens_by_result.begin(), tokens_by_result.end(),
                                      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::vector<TokenId> odd;
  for (auto group = tokens_by_result.begin(); group != tokens_by_result.end(); ++group) {
    if (group != usual) odd.insert(odd.end(), group->second.begin(), group->second.end());
  }
  return odd;
}

Expected<bool> does_not_depend_on_tokens(GraphLabeler& labeler, ValueId value) {
  for (Probe* probe : labeler.probes().triple()) {
    const FlatGraph& flat = labeler.flat();
    KVIK_TRY(const Tensor one, probe->get_with_tokens(value, ordinary_tokens(flat, probe->sizes(), 1)));
    for (const uint32_t seed : {2u, 3u}) {
      KVIK_TRY(const Tensor other, probe->get_with_tokens(value, ordinary_tokens(flat, probe->sizes(), seed)));
      if (!same_bits(one, other)) return false;
    }
  }
  return true;
}

bool has_token_input(const FlatGraph& flat) {
  return std::any_of(flat.inputs.begin(), flat.inputs.end(),
                     [](const FlatGraph::Input& input) { return input.port != nullptr && input.port->role == analysis::Role::kTokenIds; });
}

// The tokens for which it is wrong to leave a value's dependence on tokens out; nullopt if it does depend on them.
std::optional<std::vector<TokenId>> tokens_that_matter(GraphLabeler& labeler, ValueId value) {
  const int64_t vocab = labeler.flat().file->vocab.value_or(0);
  if (vocab < 2 || !has_token_input(labeler.flat()) || !comes_from_tokens_only(labeler.labels(), value)) return std::nullopt;
  // Also nullopt if it cannot be evaluated from tokens alone.
  const Expected<bool> is_free = does_not_depend_on_tokens(labeler, value);
  if (!is_free || !*is_free) return std::nullopt;
  Expected<std::vector<TokenId>> odd = exceptions(labeler, value, vocab);
  return odd && odd->size() <= kMostUnsupported ? std::optional(std::move(*odd)) : std::nullopt;
}

void mark_token_free(GraphLabeler& labeler, ValueId value, const std::vector<TokenId>& unsupported) {
  labeler.labels()[value] = {.kind = Label::Kind::kAuxiliary, .token_free = true};
  std::vector<TokenId>& all = labeler.result.unsupported_tokens;
  all.insert(all.end(), unsupported.begin(), unsupported.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  labeler.note_once(fmt::format("'{}' does not depend on the tokens (probed)", labeler.flat().graph.name_of(value)));
}

}  // namespace

bool make_token_free(GraphLabeler& labeler, onnx::NodeId id) {
  const onnx::Node node = labeler.flat().graph.nodes[static_cast<size_t>(id)];
  std::vector<std::pair<ValueId, std::vector<TokenId>>> found;
  for (const ValueId output : node.outputs) {
    if (output == onnx::kNoValue) continue;
    std::optional<std::vector<TokenId>> unsupported = tokens_that_matter(labeler, output);
    if (!unsupported) return false;
    found.emplace_back(output, std::move(*unsupported));
  }
  for (const auto& [value, unsupported] : found) mark_token_free(labeler, value, unsupported);
  return !found.empty();
}

bool make_operands_token_free(GraphLabeler& labeler, onnx::NodeId id) {
  const onnx::Node node = labeler.flat().graph.nodes[static_cast<size_t>(id)];
  bool changed = false;
  for (const ValueId input : node.inputs) {
    if (input == onnx::kNoValue || !is_row_of_tokens(labeler.labels()[input]) || labeler.flat().input_of(input) != nullptr) continue;
    const std::optional<std::vector<TokenId>> unsupported = tokens_that_matter(labeler, input);
    if (!unsupported) continue;
    mark_token_free(labeler, input, *unsupported);
    changed = true;
  }
  return changed;
}

}  // namespace kvik::native

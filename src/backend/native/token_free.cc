#include "backend/native/token_free.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <map>

namespace kvik::native {
namespace {

using onnx::ValueId;

constexpr int64_t kTokensAtOnce = 4096;
constexpr size_t kMostForbidden = 64;  // more than these are no exceptions

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.dims() == b.dims() && std::memcmp(a.bytes().data(), b.bytes().data(), a.size_bytes()) == 0;
}

bool comes_from_tokens_only(const Labels& labels, const onnx::Node& node) {
  for (const ValueId id : node.inputs) {
    if (id == onnx::kNoValue || labels[id].kind != Label::Kind::kRow) continue;
    const Label& label = labels[id];
    if (label.on_past || label.on_source || label.is_score || !label.on_tokens) return false;
  }
  return true;
}

// What each token gives by itself; the tokens that do not give what most of them do.
std::vector<TokenId> exceptions(Walk& walk, ValueId value, int64_t vocab) {
  std::map<std::string, std::vector<TokenId>> tokens_by_result;
  for (int64_t first = 0; first < vocab; first += kTokensAtOnce) {
    const int64_t count = std::min(kTokensAtOnce, vocab - first);
    Tensor tokens(DType::kI64, {count, 1});
    for (int64_t i = 0; i < count; ++i) tokens.mutable_data<int64_t>()[static_cast<size_t>(i)] = first + i;
    Probe probe(walk.labels(), walk.constants(), Sizes{.batch = count, .fresh = 1, .past = walk.flat().has_past ? 3 : 0});
    const Tensor result = probe.get_with_tokens(value, tokens);
    if (result.rank() == 0 || result.dim(0) != count) return std::vector<TokenId>(kMostForbidden + 1);
    const size_t width = result.size_bytes() / static_cast<size_t>(count);
    for (int64_t i = 0; i < count; ++i) {
      const auto* bytes = reinterpret_cast<const char*>(result.bytes().data()) + static_cast<size_t>(i) * width;
      tokens_by_result[std::string(bytes, width)].push_back(static_cast<TokenId>(first + i));
      if (tokens_by_result.size() > kMostForbidden) return std::vector<TokenId>(kMostForbidden + 1);
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

bool does_not_depend_on_tokens(Walk& walk, ValueId value) {
  for (Probe* probe : walk.probes().triple()) {
    const FlatGraph& flat = walk.flat();
    const Tensor one = probe->get_with_tokens(value, ordinary_tokens(flat, probe->sizes(), 1));
    for (const uint32_t seed : {2u, 3u}) {
      if (!same(one, probe->get_with_tokens(value, ordinary_tokens(flat, probe->sizes(), seed)))) return false;
    }
  }
  return true;
}

bool has_token_input(const FlatGraph& flat) {
  return std::any_of(flat.inputs.begin(), flat.inputs.end(),
                     [](const FlatGraph::Input& input) { return input.port != nullptr && input.port->role == analysis::Role::kTokenIds; });
}

}  // namespace

bool make_token_free(Walk& walk, onnx::NodeId id) {
  const onnx::Node node = walk.flat().graph.nodes[static_cast<size_t>(id)];
  const int64_t vocab = walk.flat().file->vocab.value_or(0);
  if (vocab < 2 || !has_token_input(walk.flat()) || !comes_from_tokens_only(walk.labels(), node)) return false;
  std::vector<TokenId> forbidden;
  try {
    for (const ValueId output : node.outputs) {
      if (output == onnx::kNoValue) continue;
      if (!does_not_depend_on_tokens(walk, output)) return false;
      const std::vector<TokenId> odd = exceptions(walk, output, vocab);
      if (odd.size() > kMostForbidden) return false;
      forbidden.insert(forbidden.end(), odd.begin(), odd.end());
    }
  } catch (const Error&) { return false; }
  for (const ValueId output : node.outputs) {
    if (output == onnx::kNoValue) continue;
    walk.labels()[output] = {.kind = Label::Kind::kAuxiliary, .token_free = true};
  }
  std::vector<TokenId>& all = walk.forbidden_tokens;
  all.insert(all.end(), forbidden.begin(), forbidden.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  walk.notes.push_back(fmt::format("{} does not depend on the tokens (probed)", node.describe()));
  return true;
}

}  // namespace kvik::native

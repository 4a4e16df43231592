#include "backend/native/tables/extract.h"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>

namespace kvik::native {
namespace {

using onnx::Node;
using onnx::ValueId;

constexpr int64_t kMostInPlan = int64_t{1} << 14;  // elements of a computed constant

// Copies the ancestors of a value, down to values that are known by other means.
class Extraction {
 public:
  explicit Extraction(const onnx::Graph& from) : from_(from), to_(std::make_shared<OwnedGraph>()) {}

  OwnedGraph& graph() { return *to_; }
  bool has(ValueId id) const { return known_.contains(id); }
  // Value `id` of the old graph is `made` in the new one.
  void set(ValueId id, ValueId made) { known_[id] = made; }

  bool add_initializer(ValueId id) {
    const onnx::TensorData* data = from_.initializer_of(id);
    if (data == nullptr) return false;
    set(id, to_->add_initializer(from_.name_of(id), *data));
    return true;
  }

  // Refuses a target that depends on values that are neither known nor computed; `what` names the target.
  template <class IsKnown>
  Expected<std::shared_ptr<const OwnedGraph>> run(ValueId target, std::string_view what, const IsKnown& is_known) {
    const auto known = [&](ValueId id) { return has(id) || add_initializer(id) || is_known(id); };
    std::vector<ValueId> missing;
    const std::vector<onnx::NodeId> nodes = nodes_needed(from_, target, known, &missing);
    if (!missing.empty()) return refuse(fmt::format("{} depends on '{}'", what, from_.name_of(missing.front())));
    for (const onnx::NodeId n : nodes) {
      to_->add_node(from_.nodes[static_cast<size_t>(n)], [this](ValueId id) { return number(id); });
    }
    to_->graph().outputs = {number(target)};
    return std::shared_ptr<const OwnedGraph>(to_);
  }

 private:
  ValueId number(ValueId id) {
    const auto [found, is_new] = known_.try_emplace(id, onnx::kNoValue);
    if (is_new) found->second = to_->add_value(from_.name_of(id));
    return found->second;
  }

  const onnx::Graph& from_;
  std::shared_ptr<OwnedGraph> to_;
  std::unordered_map<ValueId, ValueId> known_;
};

// The properties of an input that determine its tensor, without the strings of the file.
analysis::Port plain(const analysis::Port& port) {
  analysis::Port copied = port;
  for (onnx::Dim& dim : copied.dims) dim.symbol = {};
  return copied;
}

class RecipeMaker {
 public:
  RecipeMaker(const Program& program, Constants& constants)
      : flat_(*program.flat), labels_(*program.labels), constants_(constants), extraction_(flat_.graph) {}

  Expected<PositionRecipe> make(const PositionTable& table) {
    recipe_.axes = table.axes;
    recipe_.dtype = table.dtype;
    recipe_.form = call_form(labels_);
    recipe_.encodes = feed_form(flat_).encodes;
    recipe_.vocab = flat_.file->vocab.value_or(1);
    const auto is_known = [this](ValueId id) { return from_constant(id) || from_input(id) || from_axes(id); };
    KVIK_TRY(recipe_.graph, extraction_.run(table.value, fmt::format("the table '{}'", table.name), is_known));
    if (refusal_) return *refusal_;
    return std::move(recipe_);
  }

 private:
  const Label* label_of(ValueId id) const {
    return static_cast<size_t>(id) < labels_.of_value.size() ? &labels_.of_value[static_cast<size_t>(id)] : nullptr;
  }

  // A large constant expression is computed by its nodes whenever the table grows.
  bool from_constant(ValueId id) {
    const Label* label = label_of(id);
    if (label == nullptr || label->kind != Label::Kind::kConstant || element_count(label->dims) > kMostInPlan) return false;
    Expected<Tensor> tensor = constants_.get(id);
    if (!tensor) refusal_ = tensor.refusal();
    if (!tensor || tensor->dtype() == DType::kString) return false;
    extraction_.set(id, extraction_.graph().add_initializer(flat_.graph.name_of(id), stored_in_memory(std::move(*tensor))));
    return true;
  }

  bool from_input(ValueId id) {
    const FlatGraph::Input* input = flat_.input_of(id);
    if (input == nullptr) return false;
    PositionFeed feed;
    if (input->port != nullptr) {
      const bool tokens = input->port->role == analysis::Role::kTokenIds;
      feed.kind = tokens ? PositionFeed::Kind::kTokens : PositionFeed::Kind::kPort;
      feed.port = plain(*input->port);
    }
    add(id, std::move(feed));
    return true;
  }

  // The shape of a value that depends on rows is known from its axes.
  bool from_axes(ValueId id) {
    const onnx::NodeId producer = flat_.graph.value(id).producer;
    if (producer == onnx::kNoNode) return false;
    const Node& node = flat_.graph.nodes[static_cast<size_t>(producer)];
    if (!node.domain.empty() || (node.op != "Shape" && node.op != "Size")) return false;
    const Label* label = label_of(node.inputs.at(0));
    if (label == nullptr || label->kind != Label::Kind::kRow) return false;
    PositionFeed feed;
    feed.kind = node.op == "Size" ? PositionFeed::Kind::kSize : PositionFeed::Kind::kShape;
    feed.axes = label->axes;
    const auto rank = static_cast<int64_t>(label->axes.size());
    const auto bound = [&](std::string_view name, int64_t absent) {
      const int64_t at = node.int_or(name, absent);
      return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
    };
    feed.first = bound("start", 0);
    feed.last = std::max(feed.first, bound("end", rank));
    add(id, std::move(feed));
    return true;
  }

  void add(ValueId id, PositionFeed feed) {
    const ValueId made = extraction_.graph().add_value(flat_.graph.name_of(id));
    extraction_.set(id, made);
    extraction_.graph().graph().inputs.push_back(made);
    recipe_.feeds.push_back(std::move(feed));
  }

  const FlatGraph& flat_;
  const Labels& labels_;
  Constants& constants_;
  Extraction extraction_;
  PositionRecipe recipe_;
  std::optional<Refusal> refusal_;  // of a constant that cannot be evaluated
};

}  // namespace

Expected<PositionRecipe> extract_recipe(const Program& program, const PositionTable& table, Constants& constants) {
  return RecipeMaker(program, constants).make(table);
}

Expected<std::shared_ptr<const OwnedGraph>> extract_constant(const onnx::Graph& graph, ValueId value) {
  return Extraction(graph).run(value, fmt::format("'{}' is not constant: it", graph.name_of(value)), [](ValueId) { return false; });
}

}  // namespace kvik::native

#include "onnx/graph.h"

#include <fmt/format.h>

#include "kvik/error.h"

namespace kvik::onnx {
namespace {

template <class T>
const T& expect(const Node& node, const Attribute& attribute, std::string_view wanted) {
  if (const T* data = std::get_if<T>(&attribute.data)) return *data;
  throw Error(Code::kBadModel, fmt::format("{}: attribute '{}' is not {}", node.describe(), attribute.name, wanted));
}

const Attribute& require(const Node& node, std::string_view name) {
  if (const Attribute* attribute = node.find(name)) return *attribute;
  throw Error(Code::kBadModel, fmt::format("{}: the attribute '{}' is missing", node.describe(), name));
}

}  // namespace

const Attribute* Node::find(std::string_view attribute) const {
  for (const Attribute& a : attributes) {
    if (a.name == attribute) return &a;
  }
  return nullptr;
}

int64_t Node::int_or(std::string_view attribute, int64_t absent) const {
  const Attribute* a = find(attribute);
  return a == nullptr ? absent : expect<int64_t>(*this, *a, "an integer");
}

float Node::float_or(std::string_view attribute, float absent) const {
  const Attribute* a = find(attribute);
  return a == nullptr ? absent : expect<float>(*this, *a, "a number");
}

std::string_view Node::string_or(std::string_view attribute, std::string_view absent) const {
  const Attribute* a = find(attribute);
  return a == nullptr ? absent : expect<std::string_view>(*this, *a, "a string");
}

std::vector<int64_t> Node::ints_or(std::string_view attribute, std::vector<int64_t> absent) const {
  const Attribute* a = find(attribute);
  if (a == nullptr) return absent;
  return expect<std::vector<int64_t>>(*this, *a, "a list of integers");
}

std::vector<float> Node::floats_or(std::string_view attribute, std::vector<float> absent) const {
  const Attribute* a = find(attribute);
  if (a == nullptr) return absent;
  return expect<std::vector<float>>(*this, *a, "a list of numbers");
}

const TensorData& Node::tensor(std::string_view attribute) const {
  return expect<TensorData>(*this, require(*this, attribute), "a tensor");
}

const Graph& Node::graph(std::string_view attribute) const {
  return *expect<std::shared_ptr<const Graph>>(*this, require(*this, attribute), "a graph");
}

std::string Node::describe() const {
  if (name.empty()) return fmt::format("{} node", op);
  return fmt::format("node '{}' ({})", name, op);
}

void Model::check_files_unchanged() const {
  for (const std::shared_ptr<const MappedFile>& file : files) file->check_unchanged();
}

}  // namespace kvik::onnx

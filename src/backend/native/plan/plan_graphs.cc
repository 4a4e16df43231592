#include <limits>

#include "backend/native/plan/plan_fields.h"

// Graphs that a plan owns: the recipes of position tables, computed constants, and nodes of reference ops.
namespace kvik::native {
namespace {

using onnx::Attribute;
using onnx::Graph;
using onnx::Node;
using onnx::ValueId;

constexpr size_t kAnyValue = std::numeric_limits<int32_t>::max();  // of nodes that stand alone

// Writes a graph, or reads one whose strings `owner` keeps. What is read refers to nothing that is not there.
template <class A>
class GraphFields {
 public:
  GraphFields(A& a, OwnedGraph& owner) : a_(a), owner_(owner) {}

  // Values that it captures are of a graph with `n_outer` values.
  void graph(Graph& g, size_t n_outer, bool nodes_stand_alone) {
    each(g.values, [&](onnx::Value& value) {
      text(value.name);
      fields(a_, value.initializer, value.outer);
    });
    each(g.initializers, [&](onnx::TensorData& data) { data_field(a_, data); });
    each(g.nodes, [&](Node& one) { node(one, nodes_stand_alone ? kAnyValue : g.values.size()); });
    fields(a_, g.inputs, g.outputs);
    if constexpr (A::kReads) check(g, n_outer);
  }

 private:
  template <class T, class Fn>
  void each(std::vector<T>& things, const Fn& fn) {
    if constexpr (A::kReads) {
      const size_t n = a_.count();
      for (size_t i = 0; i < n; ++i) fn(things.emplace_back());
    } else {
      auto n = static_cast<uint64_t>(things.size());
      a_.number(n);
      for (T& thing : things) fn(thing);
    }
  }

  void text(std::string_view& view) {
    if constexpr (A::kReads) {
      std::string read;
      a_.text(read);
      view = owner_.keep(read);
    } else {
      a_.text_view(view);
    }
  }

  void node(Node& one, size_t n_values) {
    text(one.op);
    text(one.domain);
    text(one.name);
    fields(a_, one.opset, one.inputs, one.outputs, one.captures);
    each(one.attributes, [&](Attribute& attribute) {
      text(attribute.name);
      auto index = static_cast<uint8_t>(attribute.data.index());
      a_.enumeration(index, static_cast<uint8_t>(std::variant_size_v<Attribute::Data> - 1));
      if constexpr (A::kReads) emplace(attribute.data, index);
      std::visit([&](auto& data) { this->data(data, n_values); }, attribute.data);
    });
    if constexpr (A::kReads) {
      for (const std::vector<ValueId>* ids : {&one.inputs, &one.outputs, &one.captures}) require(*ids, n_values, onnx::kNoValue);
    }
  }

  void data(std::monostate&, size_t) {}
  void data(float& value, size_t) { field(a_, value); }
  void data(int64_t& value, size_t) { field(a_, value); }
  void data(std::string_view& value, size_t) { text(value); }
  void data(onnx::TensorData& value, size_t) { data_field(a_, value); }
  void data(std::vector<float>& values, size_t) { field(a_, values); }
  void data(std::vector<int64_t>& values, size_t) { field(a_, values); }
  void data(std::vector<std::string_view>& values, size_t) {
    each(values, [&](std::string_view& value) { text(value); });
  }
  void data(std::vector<onnx::TensorData>& values, size_t) {
    each(values, [&](onnx::TensorData& value) { data_field(a_, value); });
  }
  void data(std::shared_ptr<const Graph>& inner, size_t n_values) {
    if constexpr (A::kReads) {
      const PlanReader::Depth deeper(a_);
      auto read = std::make_shared<Graph>();
      graph(*read, n_values, false);
      inner = std::move(read);
    } else {
      Graph copied = *inner;
      graph(copied, n_values, false);
    }
  }
  void data(std::vector<std::shared_ptr<const Graph>>& inners, size_t n_values) {
    each(inners, [&](std::shared_ptr<const Graph>& inner) { data(inner, n_values); });
  }

  void require(const std::vector<ValueId>& ids, size_t n_values, ValueId least) {
    for (const ValueId id : ids) {
      if (id < least || (id >= 0 && static_cast<size_t>(id) >= n_values)) a_.fail("a graph in it reads a value that it does not have");
    }
  }

  void check(const Graph& g, size_t n_outer) {
    for (const onnx::Value& value : g.values) {
      const bool stored = value.initializer < 0 || static_cast<size_t>(value.initializer) < g.initializers.size();
      if (!stored || value.outer < onnx::kNoValue || (value.outer >= 0 && static_cast<size_t>(value.outer) >= n_outer))
        a_.fail("a graph in it has a value that is not defined");
    }
    require(g.inputs, g.values.size(), 0);
    require(g.outputs, g.values.size(), 0);
  }

  A& a_;
  OwnedGraph& owner_;
};

}  // namespace

void graph_field(PlanWriter& a, std::shared_ptr<const OwnedGraph>& graph, bool nodes_stand_alone) {
  OwnedGraph unused;
  onnx::Graph copied = graph->graph();
  GraphFields<PlanWriter>(a, unused).graph(copied, 0, nodes_stand_alone);
}

void graph_field(PlanReader& a, std::shared_ptr<const OwnedGraph>& graph, bool nodes_stand_alone) {
  auto read = std::make_shared<OwnedGraph>();
  GraphFields<PlanReader>(a, *read).graph(read->graph(), 0, nodes_stand_alone);
  graph = std::move(read);
}

}  // namespace kvik::native

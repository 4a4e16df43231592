#include "onnx/graph_builder.h"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>
#include <unordered_set>

#include "kvik/error.h"
#include "onnx/topological_order.h"

namespace kvik::onnx {
namespace {

constexpr int kDeepestCalls = 64;                  // nested function calls
constexpr size_t kMostExpanded = size_t{1} << 19;  // nodes from functions: nested calls can grow exponentially

using Names = std::unordered_map<std::string_view, ValueId>;
using Bindings = std::unordered_map<std::string_view, const Attribute*>;  // values of a function's attributes

// Where names are resolved: a graph, or the body of a function that is being inlined into a graph.
struct Scope {
  Graph& graph;
  const Scope* enclosing;  // of a subgraph; null for the main graph and for functions, which capture nothing
  const OpsetImports& opsets;
  const Bindings* bindings;  // null outside functions
  std::string_view prefix;   // of generated value names inside a function
  mutable Names names;
};

class Builder {
 public:
  Builder(const ModelMessage& message, Model& model) : message_(message), model_(model) {
    for (const FunctionMessage& function : message.functions)
      functions_[key_of(function.domain, function.name, function.overload)] = &function;
  }

  std::shared_ptr<const Graph> build() { return build_graph(*message_.graph, nullptr, message_.opsets, nullptr); }

 private:
  static std::string key_of(std::string_view domain, std::string_view name, std::string_view overload) {
    return fmt::format("{}\n{}\n{}", domain, name, overload);
  }

  static ValueId new_value(Graph& graph, std::string_view name) {
    graph.values.push_back({.name = name});
    return static_cast<ValueId>(graph.values.size() - 1);
  }

  // Defines a name once in a scope.
  static ValueId define(const Scope& scope, std::string_view name, std::string_view by) {
    const ValueId id = new_value(scope.graph, name);
    if (!scope.names.emplace(name, id).second)
      throw Error(Code::kBadModel, fmt::format("'{}' is defined twice, the second time as {}", name, by));
    return id;
  }

  // Resolves a name in the scope or its enclosing ones; a value of an enclosing graph becomes a captured value of this graph.
  // kNoValue: an optional input that a function's caller omitted. Nothing: an undefined name.
  static std::optional<ValueId> resolve(const Scope& scope, std::string_view name) {
    if (const auto known = scope.names.find(name); known != scope.names.end()) return known->second;
    if (scope.enclosing == nullptr) return std::nullopt;
    const std::optional<ValueId> outer = resolve(*scope.enclosing, name);
    if (!outer || *outer == kNoValue) return outer;
    const ValueId id = new_value(scope.graph, name);
    scope.graph.values.back().outer = *outer;
    scope.names.emplace(name, id);
    return id;
  }

  static ValueId resolve_input(const Scope& scope, std::string_view name, const NodeMessage& reader) {
    if (name.empty()) return kNoValue;
    const std::optional<ValueId> id = resolve(scope, name);
    if (!id) {
      throw Error(Code::kBadModel, fmt::format("node '{}' ({}) reads '{}', which is not an input, an initializer or the output of a node",
                                               reader.name, reader.op, name));
    }
    return *id;
  }

  std::shared_ptr<const Graph> build_graph(const GraphMessage& message, const Scope* enclosing, const OpsetImports& opsets,
                                           const Bindings* bindings) {
    auto graph = std::make_shared<Graph>();
    graph->name = message.name;
    const Scope scope{*graph, enclosing, opsets, bindings, {}, {}};
    define_inputs_and_weights(message, scope);
    for (const NodeMessage& node : message.nodes) define_outputs(node, scope);
    for (const ValueInfoMessage& info : message.value_infos) declare(scope, info);
    for (const NodeMessage& node : message.nodes) add_node(node, scope);
    for (const ValueInfoMessage& output : message.outputs) {
      const std::optional<ValueId> id = resolve(scope, output.name);
      if (!id || *id == kNoValue) throw Error(Code::kBadModel, fmt::format("no node computes the graph's output '{}'", output.name));
      graph->outputs.push_back(*id);
      declare(scope, output);
    }
    sort_topologically(*graph);
    return graph;
  }

  static void declare(const Scope& scope, const ValueInfoMessage& info) {
    const auto known = scope.names.find(info.name);
    if (known != scope.names.end() && info.type) scope.graph.values[static_cast<size_t>(known->second)].type = info.type;
  }

  static void define_inputs_and_weights(const GraphMessage& message, const Scope& scope) {
    Graph& graph = scope.graph;
    std::unordered_set<std::string_view> weights;
    for (const TensorData& weight : message.initializers) {
      const ValueId id = define(scope, weight.name, "an initializer");
      graph.values[static_cast<size_t>(id)].initializer = static_cast<int>(graph.initializers.size());
      std::vector<Dim> dims;
      for (const int64_t dim : weight.dims) dims.push_back({dim, {}});
      graph.values[static_cast<size_t>(id)].type = ValueType{ValueType::Kind::kTensor, weight.dtype, std::move(dims)};
      graph.initializers.push_back(weight);
      weights.insert(weight.name);
    }
    std::unordered_set<std::string_view> seen;
    for (const ValueInfoMessage& input : message.inputs) {
      if (!seen.insert(input.name).second)
        throw Error(Code::kBadModel, fmt::format("'{}' is defined twice, the second time as an input of the graph", input.name));
      if (weights.contains(input.name)) {
        graph.defaulted_inputs.push_back(scope.names.at(input.name));
        continue;
      }
      graph.inputs.push_back(define(scope, input.name, "an input of the graph"));
      declare(scope, input);
    }
  }

  static void define_outputs(const NodeMessage& node, const Scope& scope) {
    for (const std::string_view output : node.outputs) {
      if (!output.empty()) define(scope, output, fmt::format("an output of node '{}' ({})", node.name, node.op));
    }
  }

  void add_node(const NodeMessage& message, const Scope& scope) {
    const auto function = functions_.empty() ? functions_.end() : functions_.find(key_of(message.domain, message.op, message.overload));
    if (function != functions_.end()) return expand(message, *function->second, scope);
    Node node = linked_node(message, scope);
    append(scope.graph, std::move(node));
  }

  void append(Graph& graph, Node node) {
    if (call_depth_ > 0 && ++n_expanded_ > kMostExpanded) {
      throw Error(Code::kTooLarge, fmt::format("the model's functions expand to more than {} nodes", kMostExpanded));
    }
    const auto id = static_cast<NodeId>(graph.nodes.size());
    for (const ValueId output : node.outputs) {
      if (output != kNoValue) graph.values[static_cast<size_t>(output)].producer = id;
    }
    graph.nodes.push_back(std::move(node));
  }

  static int opset_of(std::string_view domain, const OpsetImports& opsets) {
    const auto version = opsets.find(domain);
    // Some exporters do not import com.microsoft; all its operators have version 1.
    return version == opsets.end() ? 1 : static_cast<int>(std::clamp<int64_t>(version->second, 1, 1 << 20));
  }

  Node linked_node(const NodeMessage& message, const Scope& scope) {
    Node node{.op = message.op, .domain = message.domain, .name = message.name, .opset = opset_of(message.domain, scope.opsets)};
    for (const std::string_view input : message.inputs) node.inputs.push_back(resolve_input(scope, input, message));
    for (const std::string_view output : message.outputs) node.outputs.push_back(output.empty() ? kNoValue : scope.names.at(output));
    node.attributes = linked_attributes(message.attributes, scope, node.captures);
    return node;
  }

  std::vector<Attribute> linked_attributes(const std::vector<AttributeMessage>& messages, const Scope& scope,
                                           std::vector<ValueId>& captures) {
    std::vector<Attribute> attributes;
    for (const AttributeMessage& message : messages) {
      if (!message.reference.empty()) {
        // An attribute that the caller omitted stays absent, so that the operator's default applies.
        if (scope.bindings == nullptr)
          throw Error(Code::kBadModel, fmt::format("attribute '{}' refers to '{}' outside a function", message.name, message.reference));
        if (const auto bound = scope.bindings->find(message.reference); bound != scope.bindings->end()) {
          attributes.push_back({message.name, bound->second->data});
        }
        continue;
      }
      attributes.push_back({message.name, message.graphs.empty() ? message.data : linked_graphs(message, scope, captures)});
    }
    return attributes;
  }

  Attribute::Data linked_graphs(const AttributeMessage& message, const Scope& scope, std::vector<ValueId>& captures) {
    std::vector<std::shared_ptr<const Graph>> graphs;
    for (const auto& inner : message.graphs) {
      graphs.push_back(build_graph(*inner, &scope, scope.opsets, scope.bindings));
      for (const Value& value : graphs.back()->values) {
        if (value.outer != kNoValue && std::find(captures.begin(), captures.end(), value.outer) == captures.end())
          captures.push_back(value.outer);
      }
    }
    if (message.is_graph_list) return graphs;
    return graphs.front();
  }

  // Inlines a function at its call: its inputs and outputs become those of the caller, other values are new.
  void expand(const NodeMessage& call, const FunctionMessage& function, const Scope& caller) {
    if (++call_depth_ > kDeepestCalls)
      throw Error(Code::kBadModel,
                  fmt::format("function '{}' calls itself, or functions are nested more than {} deep", function.name, kDeepestCalls));
    if (call.inputs.size() > function.inputs.size() || call.outputs.size() > function.outputs.size()) {
      throw Error(Code::kBadModel,
                  fmt::format("node '{}' calls function '{}' with {} inputs and {} outputs; the function has {} and {}", call.name,
                              function.name, call.inputs.size(), call.outputs.size(), function.inputs.size(), function.outputs.size()));
    }
    std::vector<ValueId> captures;
    const std::vector<Attribute> given = linked_attributes(call.attributes, caller, captures);
    const std::vector<Attribute> defaults = linked_attributes(function.attribute_defaults, caller, captures);
    if (!captures.empty())
      throw Error(Code::kUnsupported,
                  fmt::format("node '{}' passes a graph that reads outer values to function '{}'", call.name, function.name));
    Bindings bindings;
    for (const Attribute& attribute : defaults) bindings[attribute.name] = &attribute;
    for (const Attribute& attribute : given) bindings[attribute.name] = &attribute;

    const OpsetImports& opsets = function.opsets.empty() ? caller.opsets : function.opsets;
    Scope body{caller.graph, nullptr, opsets, &bindings, generated_prefix(call), {}};
    for (size_t i = 0; i < function.inputs.size(); ++i) {
      const ValueId given_input = i < call.inputs.size() ? resolve_input(caller, call.inputs[i], call) : kNoValue;
      body.names.emplace(function.inputs[i], given_input);
    }
    define_body_outputs(call, function, caller, body);
    for (const NodeMessage& node : function.nodes) add_node(node, body);
    --call_depth_;
  }

  void define_body_outputs(const NodeMessage& call, const FunctionMessage& function, const Scope& caller, const Scope& body) {
    std::unordered_map<std::string_view, ValueId> wanted;
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      if (call.outputs[i].empty()) continue;
      const ValueId target = caller.names.at(call.outputs[i]);
      // An input that is also an output has no node that produces the caller's value: add an Identity.
      if (const auto passed = body.names.find(function.outputs[i]); passed != body.names.end()) {
        append(caller.graph,
               Node{.op = "Identity", .domain = {}, .name = call.name, .opset = 1, .inputs = {passed->second}, .outputs = {target}});
      } else if (!wanted.emplace(function.outputs[i], target).second) {
        append(caller.graph, Node{.op = "Identity",
                                  .domain = {},
                                  .name = call.name,
                                  .opset = 1,
                                  .inputs = {wanted.at(function.outputs[i])},
                                  .outputs = {target}});
      }
    }
    for (const NodeMessage& node : function.nodes) {
      for (const std::string_view output : node.outputs) {
        if (output.empty()) continue;
        const auto target = wanted.find(output);
        const ValueId id = target != wanted.end() ? target->second : new_value(body.graph, generated_name(body.prefix, output));
        if (!body.names.emplace(output, id).second)
          throw Error(Code::kBadModel, fmt::format("'{}' is defined twice in function '{}'", output, function.name));
      }
    }
  }

  std::string_view generated_name(std::string_view prefix, std::string_view name) {
    return model_.generated_names.emplace_back(fmt::format("{}/{}", prefix, name));
  }

  // A call may have no name, but the name of its first output is unique.
  std::string_view generated_prefix(const NodeMessage& call) {
    if (!call.name.empty()) return call.name;
    return call.outputs.empty() ? call.op : call.outputs.front();
  }

  const ModelMessage& message_;
  Model& model_;
  std::unordered_map<std::string, const FunctionMessage*> functions_;
  int call_depth_ = 0;
  size_t n_expanded_ = 0;
};

}  // namespace

Model build_model(const ModelMessage& message) {
  Model model;
  model.ir_version = message.ir_version;
  model.producer_name = message.producer_name;
  model.producer_version = message.producer_version;
  model.opsets = message.opsets;
  model.metadata = message.metadata;
  model.n_functions = message.functions.size();
  model.graph = Builder(message, model).build();
  return model;
}

}  // namespace kvik::onnx

#pragma once

#include <string_view>

#include "backend/native/label/node_labeler.h"

// How axes pass through operators: one function per operator class, which sets the outputs and emits the row op, or refuses. Each file
// under rules/ adds its operators to the table through one function, declared here.
namespace kvik::native {

using Rule = Expected<> (*)(NodeLabeler& op);

class RuleTable {
 public:
  void add(std::string_view op, Rule rule) { add("", op, rule); }
  void add(std::string_view domain, std::string_view op, Rule rule) { rules_[{domain, op}] = rule; }
  Rule find(std::string_view domain, std::string_view op) const;  // null if there is none

 private:
  std::map<std::pair<std::string_view, std::string_view>, Rule> rules_;  // names are literals
};

using onnx::kMicrosoft;

const RuleTable& rules();  // all rules; any thread

void add_attention_rules(RuleTable& table);
void add_concat_rules(RuleTable& table);
void add_convolution_rules(RuleTable& table);
void add_einsum_rules(RuleTable& table);
void add_elementwise_rules(RuleTable& table);
void add_expert_rules(RuleTable& table);
void add_gather_rules(RuleTable& table);
void add_matmul_rules(RuleTable& table);
void add_movement_rules(RuleTable& table);
void add_quantized_rules(RuleTable& table);
void add_reduce_rules(RuleTable& table);
void add_reshape_rules(RuleTable& table);
void add_selection_rules(RuleTable& table);
void add_slice_rules(RuleTable& table);

// A Gather of rows by the index of a selection.
Expected<> gather_selected(NodeLabeler& op);

// GatherND and ScatterND by an index that is not a row.
Expected<> gather_places(NodeLabeler& op);
Expected<> scatter_places(NodeLabeler& op);

// Writes of new rows into a buffer with the past, by ScatterND and ScatterElements.
bool writes_into_past(NodeLabeler& op);
Expected<> write_into_past(NodeLabeler& op);

// For one token at a time: any operator whose operands have no axes of rows; its output shapes are found by running it.
Expected<> label_by_running(NodeLabeler& op);

// Broadcasts axes, right-aligned; nullopt if two lists differ.
std::optional<Axes> broadcast(std::span<const Axes> several);

}  // namespace kvik::native

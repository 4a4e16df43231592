#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "onnx/reader.h"
#include "support/model_writer.h"

namespace kvik::testing_support {

// A decoder written node by node, for what no available exporter does. 2 heads of 4, vocabulary 40.
struct TinyDecoder {
  int n_layers = 1;
  std::string past_dim = "past", present_dim = "past + new";  // as declared, whatever the graph does
  DType past_dtype = DType::kF32, present_dtype = DType::kF32;
  std::vector<std::pair<std::string, std::vector<std::string>>> more_inputs = {};  // i64, read by nothing
  int n_idle_nodes = 0;                                                            // a layer, on the way through it

  std::string bytes() const {
    ModelWriter w;
    w.input("ids", DType::kI64, {"b", "s"});
    for (const auto& [name, dims] : more_inputs) w.input(name, DType::kI64, dims);
    weight(w, "embed", {40, 8});
    ints(w, "to_heads", {0, 0, 2, 4});
    ints(w, "to_rows", {0, 0, 8});
    w.node("Gather", {"embed", "ids"}, {"x0"});
    for (int i = 0; i < n_layers; ++i) layer(w, std::to_string(i), "x" + std::to_string(i), "x" + std::to_string(i + 1));
    weight(w, "head", {8, 40});
    w.node("MatMul", {"x" + std::to_string(n_layers), "head"}, {"scores"});
    w.output("scores", DType::kF32, {"b", "s", "40"});
    return w.bytes();
  }

 private:
  static void weight(ModelWriter& w, const std::string& name, const std::vector<int64_t>& dims) {
    int64_t n = 4;
    for (const int64_t dim : dims) n *= dim;
    w.weight(name, DType::kF32, dims, std::string(static_cast<size_t>(n), '\0'));
  }
  static void ints(ModelWriter& w, const std::string& name, const std::vector<int64_t>& values) {
    w.weight(name, DType::kI64, {static_cast<int64_t>(values.size())},
             std::string(reinterpret_cast<const char*>(values.data()), values.size() * 8));
  }

  void layer(ModelWriter& w, const std::string& i, const std::string& from, const std::string& to) const {
    std::string x = from;
    for (int n = 0; n < n_idle_nodes; ++n) {
      w.node("Identity", {x}, {"idle" + i + "_" + std::to_string(n)});
      x = "idle" + i + "_" + std::to_string(n);
    }
    for (const char* part : {"q", "k", "v"}) {
      const std::string p = part + i;
      weight(w, "w" + p, {8, 8});
      w.node("MatMul", {x, "w" + p}, {"flat" + p});
      w.node("Reshape", {"flat" + p, "to_heads"}, {"split" + p});
      w.node({.op = "Transpose", .inputs = {"split" + p}, .outputs = {"new" + p}, .int_lists = {{"perm", {0, 2, 1, 3}}}});
    }
    keep(w, "k", i);
    keep(w, "v", i);
    w.node({.op = "Transpose", .inputs = {"allk" + i}, .outputs = {"kt" + i}, .int_lists = {{"perm", {0, 1, 3, 2}}}});
    w.node("MatMul", {"newq" + i, "kt" + i}, {"qk" + i});
    w.node("Softmax", {"qk" + i}, {"probs" + i});
    w.node("MatMul", {"probs" + i, "allv" + i}, {"heads" + i});
    w.node({.op = "Transpose", .inputs = {"heads" + i}, .outputs = {"back" + i}, .int_lists = {{"perm", {0, 2, 1, 3}}}});
    w.node("Reshape", {"back" + i, "to_rows"}, {"rows" + i});
    w.node("Add", {from, "rows" + i}, {to});
  }

  void keep(ModelWriter& w, const std::string& part, const std::string& i) const {
    w.input("in_" + part + i, past_dtype, {"b", "2", past_dim, "4"});
    std::string past = "in_" + part + i;
    if (past_dtype != DType::kF32) {
      w.node({.op = "Cast", .inputs = {past}, .outputs = {"cast" + part + i}, .ints = {{"to", 1}}});
      past = "cast" + part + i;
    }
    w.node({.op = "Concat", .inputs = {past, "new" + part + i}, .outputs = {"all" + part + i}, .ints = {{"axis", 2}}});
    w.output("all" + part + i, present_dtype, {"b", "2", present_dim, "4"});
  }
};

// The bytes must outlive the model.
inline std::shared_ptr<const onnx::Model> read(const std::string& bytes) {
  return std::make_shared<const onnx::Model>(onnx::read_model(std::as_bytes(std::span(bytes.data(), bytes.size()))));
}

}  // namespace kvik::testing_support

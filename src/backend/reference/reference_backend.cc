#include "backend/reference/reference_backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mutex>
#include <set>

#include "backend/graph/graph_backend.h"
#include "kvik/error.h"
#include "onnx/eval/evaluator.h"

namespace kvik::backend {
namespace {

class HostValue final : public DeviceValue {
 public:
  explicit HostValue(Tensor tensor) : tensor_(std::move(tensor)) {}
  DType dtype() const override { return tensor_.dtype(); }
  const Dims& dims() const override { return tensor_.dims(); }
  Tensor to_host() const override { return tensor_; }

 private:
  Tensor tensor_;
};

void collect_missing(const onnx::Graph& graph, std::set<std::string>& missing) {
  for (const onnx::Node& node : graph.nodes) {
    if (onnx::reference_kernels().find(node.domain, node.op) == nullptr)
      missing.insert(fmt::format("{}{}{}", node.domain, node.domain.empty() ? "" : ".", node.op));
    for (const onnx::Attribute& attribute : node.attributes) {
      if (const auto* inner = std::get_if<std::shared_ptr<const onnx::Graph>>(&attribute.data)) collect_missing(**inner, missing);
    }
  }
}

class ReferenceExecutor final : public Executor {
 public:
  explicit ReferenceExecutor(const analysis::File& file) : model_(file.model), evaluator_(*file.model->graph) {
    std::set<std::string> missing;
    collect_missing(*model_->graph, missing);
    if (!missing.empty())
      throw Error(Code::kUnsupported,
                  fmt::format("{}: the reference evaluator does not support {}", file.path.string(), fmt::join(missing, ", ")));
  }

  ValuePtr from_host(Tensor tensor) override { return std::make_shared<HostValue>(std::move(tensor)); }

  std::vector<ValuePtr> run(std::span<const NamedValue> inputs, std::span<const Wanted> outputs) override {
    onnx::Feeds feeds;
    for (const NamedValue& input : inputs) feeds.emplace(input.name, input.value->to_host());
    const std::lock_guard lock(mutex_);
    model_->check_files_unchanged();  // weights are read from the mapped files in every run
    const std::vector<Tensor> results = evaluator_.run(feeds);
    std::vector<ValuePtr> wanted;
    for (const Wanted& output : outputs) {
      for (size_t i = 0; i < results.size(); ++i) {
        if (model_->graph->name_of(model_->graph->outputs[i]) == output.name) wanted.push_back(std::make_shared<HostValue>(results[i]));
      }
    }
    return wanted;
  }

 private:
  std::shared_ptr<const onnx::Model> model_;
  std::mutex mutex_;
  onnx::Evaluator evaluator_;
};

}  // namespace

std::unique_ptr<Executor> make_reference_executor(const analysis::File& file) { return std::make_unique<ReferenceExecutor>(file); }

std::unique_ptr<Backend> make_reference_backend(analysis::Signature signature, int64_t switch_after) {
  Traits traits;
  traits.name = "reference";
  traits.device = "cpu";
  traits.switch_after = switch_after;
  return std::make_unique<GraphBackend>(std::move(signature), traits, make_reference_executor);
}

}  // namespace kvik::backend

#include "backend/native/stages.h"

#include <algorithm>

#include "backend/native/compile.h"
#include "backend/native/graph/refusal.h"
#include "backend/native/plan/length_switch.h"
#include "kvik/error.h"

namespace kvik::native {
namespace {

// What goes wrong while a graph is compiled, a kernel that fails on a probe for instance, says that it cannot be compiled: others may still
// run it.
template <class Compile>
std::shared_ptr<const Plan> make_stage(Compile compile, std::span<const std::string> no_fuse) {
  try {
    return make_plan(compile(), no_fuse);
  } catch (const Error& e) {
    if (e.code() == Code::kUnsupported || e.code() == Code::kBadArgument) throw;
    throw Refusal(e.what());
  }
}

template <class Compile>
std::shared_ptr<const Plan> try_stage(Compile compile, std::span<const std::string> no_fuse, std::string& refused) {
  try {
    return make_stage(compile, no_fuse);
  } catch (const Error& e) {
    if (e.code() != Code::kUnsupported) throw;
    refused = e.what();
    return nullptr;
  }
}

std::shared_ptr<const Plan> make_decoder(const analysis::Signature& signature, const StageOptions& options) {
  const auto compile = [&](int64_t context, int64_t beyond) {
    return make_stage([&] { return compile_decoder(signature, context, beyond); }, options.no_fuse);
  };
  try {
    return compile(options.context, 0);
  } catch (const LengthSwitch& changes) {
    const std::shared_ptr<const Plan> upto = compile(changes.after(), 0), beyond = compile(options.context, changes.after());
    std::shared_ptr<const Plan> both = join(*upto, *beyond, changes.after());
    if (both == nullptr) throw;
    return both;
  }
}

}  // namespace

int64_t length_switch_of(const analysis::Signature& signature) {
  const auto decides = [](const analysis::File& file) {
    const onnx::Graph& graph = *file.model->graph;
    return std::ranges::any_of(graph.nodes, [&](const onnx::Node& node) {
      return node.op == "If" && node.domain.empty() && !node.inputs.empty() && graph.value(node.inputs[0]).producer != onnx::kNoNode;
    });
  };
  if (std::ranges::none_of(signature.files, decides)) return 0;
  try {
    compile_decoder(signature);
  } catch (const LengthSwitch& changes) {
    return changes.after();
  } catch (const Error&) {  // whatever it is, it is no program, and cannot be asked
  }
  return 0;
}

Stages compile_stages(const analysis::Signature& signature, const StageOptions& options) {
  Stages stages;
  stages.decoder = make_decoder(signature, options);
  if (signature.encoder() != nullptr)
    stages.encoder = try_stage([&] { return compile_encoder(signature); }, options.no_fuse, stages.encoder_refused);
  const analysis::File* embedding = signature.file_of(analysis::Stage::kEmbedding);
  if (stages.decoder->embedding == kNoIndex) return stages;
  if (embedding == nullptr) throw Refusal("the decoder takes embeddings, and no file makes them from tokens");
  stages.embedding = try_stage([&] { return compile_file(*embedding); }, options.no_fuse, stages.embedding_refused);
  return stages;
}

}  // namespace kvik::native

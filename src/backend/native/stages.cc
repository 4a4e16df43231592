#include "backend/native/stages.h"

#include "backend/native/graph/refusal.h"
#include "backend/native/rows/compile.h"
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

}  // namespace

Stages compile_stages(const analysis::Signature& signature, const StageOptions& options) {
  Stages stages;
  stages.decoder = make_stage([&] { return compile_decoder(signature, options.context); }, options.no_fuse);
  if (signature.encoder() != nullptr)
    stages.encoder = try_stage([&] { return compile_encoder(signature); }, options.no_fuse, stages.encoder_refused);
  const analysis::File* embedding = signature.file_of(analysis::Stage::kEmbedding);
  if (stages.decoder->embedding == kNoIndex) return stages;
  if (embedding == nullptr) throw Refusal("the decoder takes embeddings, and no file makes them from tokens");
  stages.embedding = try_stage([&] { return compile_file(*embedding); }, options.no_fuse, stages.embedding_refused);
  return stages;
}

}  // namespace kvik::native

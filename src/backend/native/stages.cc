#include "backend/native/stages.h"

#include <fmt/format.h>

#include "analysis/hidden_output.h"
#include "backend/native/compile.h"
#include "backend/native/plan/join.h"

namespace kvik::native {
namespace {

using PlanPtr = std::shared_ptr<const Plan>;

Outcome<PlanPtr> plan_of(const Outcome<Program>& program, std::span<const std::string> no_fuse) {
  if (!program) return program.stop();
  return refuse_broken([&]() -> Outcome<PlanPtr> { return make_plan(*program, no_fuse); });
}

// A model with a length switch is compiled twice, for both sides of it.
Outcome<PlanPtr> make_decoder(const analysis::Signature& signature, const StageOptions& options) {
  const auto plan_for = [&](const DecoderOptions& side) { return plan_of(compile_decoder(signature, side), options.no_fuse); };
  Outcome<PlanPtr> plan = plan_for({.context = options.context});
  if (plan.length_switch() == nullptr) return plan;
  const int64_t length = plan.length_switch()->length;
  const Outcome<PlanPtr> upto = plan_for({.context = length}), beyond = plan_for({.context = options.context, .beyond = length});
  for (const Outcome<PlanPtr>* side : {&upto, &beyond}) {
    if (!*side) return side->stop();
  }
  PlanPtr both = join(**upto, **beyond, length);
  return both != nullptr ? Outcome<PlanPtr>(std::move(both)) : Outcome<PlanPtr>(plan.length_switch()->refusal);
}

}  // namespace

Outcome<Stages> compile_stages(const analysis::Signature& signature, const StageOptions& options) {
  Outcome<PlanPtr> decoder = make_decoder(signature, options);
  if (!decoder) return decoder.stop();
  Stages stages;
  stages.decoder = *decoder;
  const auto set = [&](const Outcome<Program>& program, PlanPtr& plan, std::string& refused) {
    Outcome<PlanPtr> made = plan_of(program, options.no_fuse);
    if (made) plan = *made;
    if (!made) refused = made.sentence();
  };
  if (signature.encoder() != nullptr) set(compile_encoder(signature), stages.encoder, stages.encoder_refused);
  if (stages.decoder->embedding == kNoIndex) return stages;
  const analysis::File* embedding = signature.file_of(analysis::Stage::kEmbedding);
  if (embedding == nullptr) return Refusal{{}, "the decoder takes embeddings, and no file computes them from tokens"};
  set(compile_file(*embedding), stages.embedding, stages.embedding_refused);
  return stages;
}

Outcome<PlanPtr> compile_hidden_states(analysis::Signature signature, const StageOptions& options) {
  for (analysis::File& file : signature.files) {
    const analysis::Port* wanted = analysis::hidden_output(file);
    for (analysis::Port& port : file.outputs) {
      const bool is_other = port.role == analysis::Role::kHiddenStates && &port != wanted;
      if (wanted != nullptr && (is_other || port.role == analysis::Role::kLogits)) port.role = analysis::Role::kOther;
    }
  }
  const analysis::File* file = signature.embedder();
  if (file == nullptr || file->output_of(analysis::Role::kHiddenStates) == nullptr)
    return Refusal{{}, fmt::format("{}: no file outputs hidden states for each token", signature.folder.string())};
  if (signature.first_step() == nullptr) return plan_of(compile_encoder(signature), options.no_fuse);
  Outcome<PlanPtr> plan = make_decoder(signature, options);
  if (plan && (*plan)->embedding != kNoIndex) return Refusal{{}, "it takes embeddings instead of tokens"};
  return plan;
}

}  // namespace kvik::native

#include "backend/native/saved_stages.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/native/plan/plan_file.h"
#include "kvik/error.h"

namespace kvik::native {

std::vector<PlanModel> plan_models(const analysis::Signature& signature) {
  std::vector<PlanModel> models;
  for (const analysis::File& file : signature.files) models.push_back({file.path.string(), file.model});
  return models;
}

std::string describe(const analysis::Signature& signature, const StageOptions& options) {
  std::vector<std::string> without = options.no_fuse;
  std::ranges::sort(without);
  std::vector<int> stages;
  for (const analysis::File& file : signature.files) stages.push_back(static_cast<int>(file.stage));
  return fmt::format("context {}, positions {}, stages {}, without {}", options.context, signature.max_positions.value_or(0),
                     fmt::join(stages, " "), fmt::join(without, " "));
}

SavedPlans saved_plans(const analysis::Signature& signature, const StageOptions& options, const Stages& stages) {
  return {.options = describe(signature, options),
          .plans = {stages.decoder, stages.encoder, stages.embedding},
          .refused = {"", stages.encoder_refused, stages.embedding_refused}};
}

Stages stages_of(const SavedPlans& saved, const analysis::Signature& signature, const StageOptions& options, std::string_view name) {
  const auto fail = [&](std::string_view why) {
    throw Error(Code::kBadArgument, fmt::format("{}: {}; delete the file, and it is made again", name, why));
  };
  if (saved.options != describe(signature, options)) fail("it was compiled with other options");
  if (saved.plans.size() != 3 || saved.refused.size() != 3 || saved.plans[0] == nullptr) fail("it has no decoder");
  Stages stages{saved.plans[0], saved.plans[1], saved.plans[2], saved.refused[1], saved.refused[2]};
  if (stages.decoder->embedding != kNoIndex && stages.embedding == nullptr && signature.file_of(analysis::Stage::kEmbedding) == nullptr)
    fail("its decoder takes embeddings, and no file computes them");
  return stages;
}

void save_stages(const std::filesystem::path& path, const analysis::Signature& signature, const StageOptions& options,
                 const Stages& stages) {
  write_plans(path, saved_plans(signature, options, stages), plan_models(signature));
}

Stages load_stages(const std::filesystem::path& path, const analysis::Signature& signature, const StageOptions& options) {
  return stages_of(read_plans(path, plan_models(signature)), signature, options, path.string());
}

}  // namespace kvik::native
